"""The files that steps produced, as recorded in the log; and fetching those that a bucket has."""

from collections.abc import Iterable
from pathlib import Path

from podium.log.artifacts import ArtifactRef
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.payloads import RecordedArtifact, StepEnd, payload_of, read_as
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound
from podium.ports.store import EventLog
from podium.runtime.reading import records_of
from podium.runtime.run_artifacts import RunArtifacts
from podium.runtime.rundir import PathRefused, inside
from podium.runtime.spilling import spilled_refs


def recorded_in(record: EventRecord) -> tuple[RecordedArtifact, ...]:
    """The files recorded in the end of a step."""
    if record.step_id is None or b'"artifacts"' not in record.payload:
        return ()
    return payload_of(record, StepEnd).artifacts


def refs_in(payloads: Iterable[bytes]) -> Iterable[ArtifactRef]:
    """The references by SHA-256 in payloads, without duplicates: files of steps, and large values."""
    found: dict[str, ArtifactRef] = {}
    for payload in payloads:
        refs = spilled_refs(payload)
        if b'"artifacts"' in payload:
            refs += [one.ref() for one in read_as(StepEnd, payload)[0].artifacts]
        found.update((ref.sha256, ref) for ref in refs if ref.sha256 is not None)
    return found.values()


async def restore_step_files(log: EventLog, run_id: RunId, folder: Path, bucket: RunArtifacts) -> None:
    """Fetch files that are missing in the folder, in their newest version. What the bucket does not have
    remains missing.

    Raises `ArtifactStoreUnavailable`.
    """
    newest: dict[str, ArtifactRef] = {}
    async for record in records_of(log, run_id):
        newest.update((one.path, one.ref()) for one in recorded_in(record) if one.path is not None)
    for path, ref in newest.items():
        await _restore(folder, path, ref, bucket)


async def _restore(folder: Path, path: str, ref: ArtifactRef, bucket: RunArtifacts) -> None:
    try:
        target = inside(folder, path, what="artifact")
        if not target.exists():
            await bucket.fetch(ref, target)
    except (ArtifactNotFound, ArtifactCorrupt, PathRefused):
        return
