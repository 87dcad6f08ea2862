"""Plants a fault in a copy of the source and runs the tests that have to notice it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.conformance import files_by_rule, has_promises
from tests.planted.edits import SOURCE, CannotPlant
from tests.planted.faults import Fault

ROOT: Final = Path(__file__).parents[2]
_PROMISES: Final = {
    "": "tests/promises/test_memory_store.py",
    "stores/sqlite/": "tests/promises/sqlite/test_sqlite_store.py",
    "stores/postgres/": "tests/promises/postgres/test_postgres_store.py",
}
_PYTEST: Final = [
    *(sys.executable, "-m", "pytest", "-x", "-q"),
    *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"),
]
# A fault may make a test run for ever. That is noticed, too, but a fault that fails at once is a better one.
# For an idle machine: on a busy one tests have as much more time as others take from them.
_TEST_SECONDS: Final = 60
_PATIENCE_SECONDS: Final = 240
_SOME_FAILED: Final = 1
_NOTHING_COLLECTED: Final = 5


class Outcome(NamedTuple):
    noticed: bool
    # The first test that failed, or why none did.
    why: str


def try_fault(fault: Fault) -> Outcome:
    """Whether a test fails with the fault in place."""
    with tempfile.TemporaryDirectory(prefix="plant-") as folder:
        try:
            plant(fault, Path(folder))
        except CannotPlant as error:
            return Outcome(False, f"cannot be planted any more: {error}")
        outcome = Outcome(False, f"no test is marked with {fault.rule}")
        for stage in _stages(fault):
            outcome = _run(stage, fault, Path(folder))
            if outcome.noticed:
                break
        return outcome


def plant(fault: Fault, folder: Path) -> None:
    """A copy of the source with the fault in it, in `folder/src`."""
    texts = fault.changed_files()
    shutil.copytree(SOURCE.parent, folder / "src", copy_function=_link)
    for file, text in texts.items():
        path = folder / "src" / SOURCE.name / file
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        # Not written into, for it is a link to the real one.
        path.unlink(missing_ok=True)
        path.write_text(text)


def _link(source: str, target: str) -> None:
    """Links are made in no time, and compiled modules stay valid."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _stages(fault: Fault) -> list[list[str]]:
    """The files to run: those of fast tests, then the others."""
    if fault.tests:
        return [list(fault.tests)]
    files = [str(path.relative_to(ROOT)) for path in sorted(files_by_rule().get(fault.rule, ()))]
    if has_promises(fault.rule):
        files += _promises(fault)
    fast = [
        file for file in files if file.startswith(("tests/unit", "tests/messages")) or file == _PROMISES[""]
    ]
    return [stage for stage in (fast, [file for file in files if file not in fast]) if stage]


def _promises(fault: Fault) -> list[str]:
    """The promises of the stores that the fault touches; the one in memory shares its rules with all."""
    changed = [edit.file for edit in fault.edits]
    touched = {
        tests for start, tests in _PROMISES.items() if start and any(f.startswith(start) for f in changed)
    }
    return sorted(touched) or [_PROMISES[""]]


def _run(files: list[str], fault: Fault, folder: Path) -> Outcome:
    chosen = ["--rule", fault.rule] if fault.rule else []
    slowdown = _slowdown()
    limit = ["--timeout", str(round(_TEST_SECONDS * slowdown))]
    patience = round(_PATIENCE_SECONDS * slowdown)
    try:
        done = subprocess.run(
            [*_PYTEST, *limit, "--basetemp", str(folder / "t"), *chosen, *files],
            cwd=ROOT,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return Outcome(False, f"the tests were not finished after {patience} s")
    return _outcome(done)


def _slowdown() -> float:
    """By how much this machine is slower than an idle one: its processes for each core."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _environment(folder: Path) -> dict[str, str]:
    ours = {
        "PYTHONPATH": str(folder / "src"),
        # Compiled tests are kept for the next fault; compiled modules of the copy go with it.
        "PYTHONDONTWRITEBYTECODE": "",
        # Examples that fail here must not be tried again on the real source.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
    }
    # Set by pytest, when the faults are tried in a test of their own.
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | ours


def _outcome(done: "subprocess.CompletedProcess[str]") -> Outcome:
    lines = done.stdout.strip().splitlines() or [done.stderr[-300:]]
    if done.returncode == _NOTHING_COLLECTED:
        return Outcome(False, "no test was run")
    # An error in collecting tests or in a fixture would prove nothing.
    failed = done.returncode == _SOME_FAILED and "failed" in lines[-1] and "error" not in lines[-1]
    why = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])
    return Outcome(failed, why)
