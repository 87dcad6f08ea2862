"""What a run keeps of its environment files, and what it asks for again."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from podium.log.ids import RunId
from podium.operations.env_files import EnvFile, EnvFileRequired, files_of_run, kept_facts
from podium.runtime.rundir import RunDirectory
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run

FILE = EnvFile(Path("/etc/w.env"), {"TOKEN": "a-value", "LEVEL": "debug"})


def check(tmp_path: Path, *given: EnvFile) -> list[str]:
    """A run that was started with `FILE` is resumed with others."""

    async def scenario() -> list[str]:
        store = MemoryStore(VirtualClock())
        kept = kept_facts([FILE])
        assert kept is not None
        directory = RunDirectory(tmp_path, "r1")
        directory.make()
        directory.env_key.write_bytes(kept.key)
        queued = event("r1", "RunQueued", envFiles=kept.facts)
        await store.create_run(new_run("r1"), [queued])
        found = await files_of_run(
            store, tmp_path, await store.get_run(RunId("r1")), given, "podium resume r1"
        )
        return list(found.warnings)

    return asyncio.run(scenario())


@pytest.mark.rule("D31")
def test_a_run_needs_all_its_variables_again(tmp_path: Path) -> None:
    assert check(tmp_path, FILE) == []
    with pytest.raises(EnvFileRequired, match="Missing: LEVEL, TOKEN"):
        check(tmp_path)
    with pytest.raises(EnvFileRequired, match="Missing: LEVEL"):
        check(tmp_path, EnvFile(FILE.path, {"TOKEN": "a-value"}))


@pytest.mark.rule("D31")
def test_a_changed_value_is_warned_about(tmp_path: Path) -> None:
    (warning,) = check(tmp_path, EnvFile(FILE.path, {**FILE.values, "LEVEL": "info"}))
    assert warning.startswith("/etc/w.env changed since the run was started")


@pytest.mark.rule("D31")
def test_what_is_kept_has_no_value_and_a_digest_that_nobody_can_check_without_the_key() -> None:
    one, other = kept_facts([FILE]), kept_facts([FILE])
    assert one is not None
    assert other is not None
    assert b"a-value" not in msgspec.json.encode(one.facts)
    assert list(one.facts[0]["names"]) == ["LEVEL", "TOKEN"]
    assert one.facts[0]["digest"] != other.facts[0]["digest"]
