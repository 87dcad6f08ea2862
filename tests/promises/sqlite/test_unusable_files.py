"""A file that cannot be written, or is damaged: said in words that help, nothing half done, and no traceback."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from podium.errors import PodiumError, StoreUnavailable, StoreVersion
from podium.log.events import EventRecord
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event, new_run
from podium.testing.store_promises import R1, TTL, started
from podium.wiring.stores import UnknownStore, open_store
from tests.promises.sqlite.disks import FailingDisk

UNAVAILABLE, ANOTHER_VERSION, PROBLEMS = 69, 78, 1
_names = count()

# Where SQLite goes on after an error of the disk, apsw has nobody to raise it to.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# root may write where nobody may. Taking CAP_DAC_OVERRIDE out of what its programs can ever get makes the modes of
# files hold for it, too; whoever is not root needs no such thing and is not allowed to do it.
_PODIUM = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0 or os.geteuid() != 0
os.execv(sys.executable, [sys.executable, "-m", "podium", *sys.argv[1:]])
"""


def podium(*arguments: str) -> tuple[int, str]:
    """The exit code and what was said on stderr; a traceback is never said."""
    done = subprocess.run(
        [sys.executable, "-c", _PODIUM, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


class Prepared(NamedTuple):
    path: Path
    fence: Fence
    log: list[EventRecord]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    path = tmp_path_factory.mktemp("prepared") / "podium.db"

    async def prepare() -> Prepared:
        store = await SqliteStore.open(path)
        await store.add_bus("kafka")
        lease = await started(store)
        for batch in range(4):
            writes = [event("r1", "StepCompleted", f"{batch}/{n}", output="x" * 300) for n in range(10)]
            await store.append(R1, writes, fence=lease.fence)
        log = await store.read(R1)
        await store.close()
        return Prepared(path, lease.fence, log)

    return asyncio.run(prepare())


@pytest.fixture
def prepared(original: Prepared, tmp_path: Path) -> Prepared:
    """A store of one's own with 42 events."""
    folder = tmp_path / "store"
    folder.mkdir()
    path = folder / "podium.db"
    shutil.copy(original.path, path)
    return original._replace(path=path)


# --- not to be written ----------------------------------------------------------------------------


@pytest.fixture
def read_only(prepared: Prepared, request: pytest.FixtureRequest) -> Iterator[Prepared]:
    """The file or its directory, which are given back their modes afterwards."""
    place = {"file": prepared.path, "directory": prepared.path.parent}[request.param]
    before = place.stat().st_mode
    place.chmod(before & ~0o222)
    yield prepared
    place.chmod(before)


@pytest.mark.parametrize("read_only", ["file", "directory"], indirect=True)
def test_a_store_that_may_not_be_written_is_told_and_left_as_it_is(read_only: Prepared) -> None:
    path = read_only.path
    before = path.read_bytes()
    code, said = podium("store", "vacuum", "--store", str(path))
    assert code == UNAVAILABLE
    assert said.startswith(f"STORE_UNAVAILABLE: {path}")
    assert "check the modes of its directory" in said or "choose a directory that can be written" in said
    assert len(said.splitlines()) == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["file/podium.db", "file/runs/podium.db", "x" * 300])
def test_a_store_cannot_be_made_where_no_file_can_be(tmp_path: Path, name: str) -> None:
    """The same word whether it is looked for or made: both are answers, no traceback."""
    (tmp_path / "file").write_text("no directory")
    for create in (False, True):
        with pytest.raises((StoreUnavailable, UnknownStore)) as refused:
            asyncio.run(open_store(str(tmp_path / name), create=create))
        assert name[:80] in str(refused.value)


@pytest.mark.parametrize("read_only", ["file"], indirect=True)
def test_what_reading_left_beside_a_read_only_file_is_named_when_it_is_in_the_way(
    read_only: Prepared,
) -> None:
    """SQLite makes the file of its shared memory with the modes of the database, and they stay."""
    path = read_only.path
    assert podium("runs", "list", "--store", str(path)) == (0, "")
    path.chmod(0o644)
    code, said = podium("store", "vacuum", "--store", str(path))
    assert code == UNAVAILABLE
    assert "the files beside it that share its name" in said
    path.with_name("podium.db-shm").chmod(0o644)
    assert podium("store", "vacuum", "--store", str(path)) == (0, "")


def test_a_file_that_becomes_read_only_refuses_every_write_until_it_may_be_written_again(
    prepared: Prepared,
) -> None:
    """As when a disk with errors is mounted anew, read-only, while Podium runs."""
    disk = FailingDisk(
        f"read-only{next(_names)}", lambda: apsw.ReadOnlyError("read-only"), at=-1, for_good=True
    )

    async def scenario() -> None:
        store = await SqliteStore.open(prepared.path, vfs=disk.vfs_name)
        disk.fail_from(disk.changes + 1)
        one, two = (event("r1", "StepStarted", name) for name in ("one", "two"))
        for refused in (
            store.append(R1, [one, two], fence=prepared.fence),
            store.create_run(new_run("r2"), [event("r2", "RunQueued")]),
            store.claim_line("kafka", owner="relay", ttl=TTL),
            store.remove_bus("kafka"),
        ):
            with pytest.raises(StoreUnavailable, match="check the modes"):
                await refused
        # Many at once, too; and whoever reads goes on.
        appends = [store.append(R1, [write], fence=prepared.fence) for write in (one, two)]
        told = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(answer) for answer in told] == [StoreUnavailable, StoreUnavailable]
        assert await store.read(R1) == prepared.log
        disk.repair()
        appended = await store.append(R1, [one, two], fence=prepared.fence)
        assert [(answer.record.run_seq, answer.duplicate) for answer in appended] == [
            (43, False),
            (44, False),
        ]
        assert (await store.stats()).runs == 1
        assert await store.problems() == []
        await store.close()

    asyncio.run(scenario())
    disk.unregister()


# --- damaged --------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "ones": lambda page: b"\xff" * len(page),
    "zeros": lambda page: bytes(len(page)),
    "flipped": lambda page: bytes(byte ^ 0xFF for byte in page),
}
_PAGE, _HEADER = 4096, 100


def damage(path: Path, page: int, how: str) -> None:
    """One page of a file; of the first one, what comes after the header of the file."""
    content = bytearray(path.read_bytes())
    place = slice(page * _PAGE + (0 if page else _HEADER), (page + 1) * _PAGE)
    content[place] = DAMAGES[how](bytes(content[place]))
    path.write_bytes(content)


@pytest.mark.parametrize("how", DAMAGES)
def test_whichever_page_is_damaged_every_answer_is_right_or_says_so_and_the_check_finds_it(
    original: Prepared, how: str, tmp_path: Path
) -> None:
    async def scenario(path: Path) -> list[str]:
        """What was said by whoever noticed the damage before the check did."""
        told: list[str] = []
        try:
            store = await SqliteStore.open(path)
        except PodiumError as error:
            return [str(error)]
        for ask in (
            lambda: store.read(R1),
            lambda: store.get_run(R1),
            lambda: store.append(R1, [event("r1", "StepStarted", "new")], fence=original.fence),
            lambda: store.claim_line("kafka", owner="relay", ttl=TTL),
            store.outbox_lines,
            store.stats,
        ):
            try:
                answer: object = await ask()
            except PodiumError as error:
                told.append(str(error))
            else:
                if isinstance(answer, list) and answer and isinstance(answer[0], EventRecord):
                    assert answer == original.log
        assert await store.problems() != []
        await store.close()
        return told

    pages = original.path.stat().st_size // _PAGE
    noticed = 0
    for page in range(pages):
        path = tmp_path / f"page{page}" / "podium.db"
        path.parent.mkdir()
        shutil.copy(original.path, path)
        damage(path, page, how)
        told = asyncio.run(scenario(path))
        assert all("is damaged: run `podium store check`, and restore a backup" in text for text in told)
        noticed += bool(told)
        shutil.rmtree(path.parent)
    assert pages > 30
    # The others belong to tables that these questions do not read: schedules, tokens, plans.
    assert noticed > 20


def test_a_file_with_a_garbage_header_is_refused_and_left_as_it_is(prepared: Prepared) -> None:
    content = bytearray(prepared.path.read_bytes())
    content[:_HEADER] = b"\xa5" * _HEADER
    prepared.path.write_bytes(content)
    with pytest.raises(StoreVersion, match="or restore a backup"):
        asyncio.run(SqliteStore.open(prepared.path))
    for command in (["runs", "list"], ["store", "check"], ["store", "migrate"]):
        code, said = podium(*command, "--store", str(prepared.path))
        assert code == ANOTHER_VERSION
        assert said == (
            f"STORE_VERSION: {prepared.path} is not an SQLite database: choose another path with --store, "
            "or restore a backup if this was a store\n"
        )
    assert prepared.path.read_bytes() == bytes(content)


def test_a_damaged_page_is_told_on_the_command_line_and_found_by_the_check(prepared: Prepared) -> None:
    with apsw.Connection(str(prepared.path)) as db:
        events = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events'").get
    db.close()
    damage(prepared.path, events - 1, "flipped")
    store = ("--store", str(prepared.path))
    code, said = podium("events", "r1", *store)
    assert code == UNAVAILABLE
    assert said == (
        f"STORE_UNAVAILABLE: {prepared.path}: database disk image is malformed; "
        f"the file is damaged: run `podium store check --store {prepared.path}`, and restore a backup\n"
    )
    code, said = podium("store", "check", *store)
    assert code == PROBLEMS
    assert "the file is damaged" in said
