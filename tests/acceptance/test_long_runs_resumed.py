"""A long run whose process was killed is resumed from its checkpoint, by the command line."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from podium.log.checkpoints import Checkpoint
from podium.log.ids import RunId
from podium.wiring.stores import open_store
from tests.acceptance.podium import Place, until

# More events than a driver appends before it saves a checkpoint, without starting a process for each.
WORKFLOW = f"""
steps:
  - name: L
    for_each:
      items: {list(range(5200))}
      steps: [{{name: A, command: [x], when: {{expr: "${{item}} < 0"}}}}]
  - {{name: Failing, command: [sh, -c, exit 3], allow_failure: true}}
  - {{name: Hang, command: [sh, -c, 'test -e go || {{ touch hangs; sleep 600; }}']}}
  - {{name: Last, command: [sh, -c, 'echo done']}}
"""


def _checkpoint(place: Place) -> Checkpoint | None:
    async def load() -> Checkpoint | None:
        store = await open_store(str(place.runs / "podium.db"), create=False)
        try:
            return await store.load_checkpoint(RunId(place.run_id))
        finally:
            await store.close()

    return asyncio.run(load())


@pytest.mark.rule("D31")
@pytest.mark.timeout(300)
def test_a_killed_long_run_is_resumed_from_its_checkpoint(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(WORKFLOW)
    running = place.begin("run", "w.yaml", "-q", "--run-id", place.run_id)
    try:
        until((tmp_path / "hangs").exists, seconds=100)
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.communicate()
    checkpoint = _checkpoint(place)
    assert checkpoint is not None
    assert checkpoint.run_seq >= 5000
    (tmp_path / "go").touch()
    done = place.run("resume", place.run_id, "-q")
    # Also what happened before the resume is named at the end.
    assert "1 step failed: Failing (exit code 3)" in done.stdout
    directory = place.runs / place.run_id
    lines = [json.loads(line) for line in (directory / "logs" / "events.jsonl").read_text().splitlines()]
    assert [line["runSeq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["eventType"] == "RunCompleted"
    state = json.loads((directory / "state.json").read_text())
    assert state["status"] == "completed"
    assert state["steps"]["L"]["summary"]["count"] == 5200
    assert state["steps"]["Last"]["output"] == "done\n"
