"""What a run had come to at one of its records: a cache of its log, so that a resume reads only the records after it.

A checkpoint may be missing, damaged, or made by other code: then the log is replayed. Nothing is stored in it alone.
"""

import msgspec


class Checkpoint(msgspec.Struct, gc=False, frozen=True):
    # The newest record that it covers.
    run_seq: int
    # What made it: the release of Podium and the format of the body.
    version: str
    rules_version: int
    plan_sha256: str
    # Of the body.
    sha256: bytes
    body: bytes
