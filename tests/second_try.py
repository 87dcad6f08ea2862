"""`make test` runs the few tests that failed beside others again, alone, and names those that pass then.

The second stage of `make test` runs real servers and thousands of processes on the cores of any machine. A test that
fails there only because a server was slow must not hide what all others found; one that fails twice is a failure.
More than `MAX_FAILED` failures are no matter of load, and nothing is tried again.

    python -m tests.second_try [arguments of pytest]
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

MAX_FAILED = 3

_TESTS_FAILED = 1  # pytest's exit code; any other code but 0 means that the tests did not run to their end
_NOT_BEFORE_DONE = ("-p", "no:randomly")  # the order in which they failed


def run_twice(
    arguments: Sequence[str],
    run_pytest: Callable[[Sequence[str]], int],
    failed: Path,
    say: Callable[[str], None],
) -> int:
    """The exit code; `run_pytest` runs the tests, and the names of those that fail are then in the file `failed`."""
    code = run_pytest(arguments)
    if code != _TESTS_FAILED:
        return code
    names = _read_names(failed)
    if not 0 < len(names) <= MAX_FAILED:
        return code
    say(f"{len(names)} failed; again, without others beside them: {', '.join(names)}")
    code = run_pytest(["-n", "0", *_NOT_BEFORE_DONE, *names])
    if code == 0:
        say(f"PASSED ONLY ON THE SECOND TRY: {', '.join(names)}")
    return code


def _read_names(failed: Path) -> list[str]:
    return failed.read_text(encoding="utf-8").splitlines() if failed.exists() else []


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        failed = Path(folder) / "failed"

        def run_pytest(given: Sequence[str]) -> int:
            command = [sys.executable, "-m", "pytest", "--failed-to", str(failed), *given]
            return subprocess.run(command, check=False).returncode

        return run_twice(arguments, run_pytest, failed, lambda text: print(f"\n{text}", flush=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
