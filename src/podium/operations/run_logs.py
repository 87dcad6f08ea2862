"""Where the logs of a run are read: in its directory, and for runs of pools in the bucket, if there is one."""

from podium.log.runs import Run
from podium.operations.parts import Parts
from podium.ports.logs import RunLogs
from podium.runtime.log_files import FileLogs, MergedLogs
from podium.runtime.log_segments import SegmentLogs
from podium.runtime.log_shipping import SHIP_SECONDS

# Maximum delay of a reader on another host, including the time for requests.
LATE_SECONDS = SHIP_SECONDS + 2.0


def is_shared(parts: Parts, run: Run) -> bool:
    """Whether its logs are read from the bucket, and so slightly later than its events."""
    return run.pool is not None and parts.bucket is not None


async def logs_of(parts: Parts, run: Run) -> RunLogs:
    files = FileLogs(parts.directory(run.identity.run_id).steps)
    artifacts = parts.bucket_of(run.identity.run_id) if is_shared(parts, run) else None
    if artifacts is None:
        return files
    return MergedLogs(SegmentLogs(await artifacts.log_segments()), files)
