"""The state of a run at one of its records: a cache of its log, so that a resume reads only later records.

A checkpoint may be missing, damaged, or written by other code; then the log is replayed. It holds nothing
that is not also in the log.
"""

import msgspec


class Checkpoint(msgspec.Struct, gc=False, frozen=True):
    # The newest record that the checkpoint covers.
    run_seq: int
    # Identifies the writer: the Podium release and the format of the body.
    version: str
    rules_version: int
    plan_sha256: str
    # Hash of the body.
    sha256: bytes
    body: bytes
