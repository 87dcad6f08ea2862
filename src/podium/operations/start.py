"""Start a run of a workflow."""

from collections.abc import Callable

from podium.log.ids import RunId
from podium.operations.drive import ReadyRun
from podium.operations.parts import Parts
from podium.ports.engine import Notice, RunRequest


async def start_run(
    parts: Parts, request: RunRequest, *, notify: Callable[[Notice], None] | None = None
) -> ReadyRun:
    """Create the run. Raises `RunExists`, and what `Parts.require_needs` does."""
    run_id = await parts.engine().create(request, notify=notify)
    if request.original_run_id is not None:
        from podium.operations.rerunning import carry_files_over

        await carry_files_over(parts, RunId(request.original_run_id), run_id)
    return ReadyRun(run_id)
