"""Starting writers and collecting what they were told."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType

import msgspec

from tests.promises.postgres.writers import Ack, Job

_ROOT = Path(__file__).parents[3]


class Writers:
    """Processes at work; `acks` grows while they are."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.acks: list[Ack] = []
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.promises.postgres.writers", msgspec.json.encode(job).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=_ROOT,
            )
            for job in jobs
        ]
        self._readers = [Thread(target=self._collect, args=[process]) for process in self._processes]
        for reader in self._readers:
            reader.start()

    @property
    def working(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    def stop(self) -> None:
        """After what they are at."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        self.wait()

    def wait(self) -> None:
        for reader in self._readers:
            reader.join(60)
        for process in self._processes:
            assert process.stderr is not None
            assert process.wait(60) == 0, process.stderr.read().decode()[-2000:]

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.acks.append(msgspec.json.decode(line, type=Ack))

    def __enter__(self) -> "Writers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for reader in self._readers:
            reader.join(10)
        for process in self._processes:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
