"""A worker's name on the server says which process it is, and is short: most events of a history repeat it."""

import os
import socket
import subprocess
import sys

import pytest

from podium.engines.worker_names import is_gone, worker_name

_NAME = "from podium.engines.worker_names import worker_name; print(worker_name(), flush=True); input()"


@pytest.mark.rule("EN16")
def test_a_name_is_gone_with_its_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name.startswith(f"{process.pid}@{socket.gethostname()}:")
        assert not is_gone(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(name), "its exit status was not taken yet"
    assert is_gone(name)


@pytest.mark.rule("EN16")
def test_the_number_of_a_process_that_was_given_again_is_not_the_worker() -> None:
    assert not is_gone(worker_name())
    assert is_gone(f"{worker_name()}0")


def test_of_workers_elsewhere_nothing_is_known() -> None:
    own = worker_name()
    place = own.rpartition(":")[2]
    for other in (
        own.replace(f"@{socket.gethostname()}", "@another-host"),
        own.replace(f":{place}", f":{'0' * 4 if place[:4] != '0000' else '1' * 4}{place[4:]}"),
        f"{os.getpid()}@{socket.gethostname()}",
        "a worker of something else",
        "",
    ):
        assert not is_gone(other), other


def test_a_name_is_not_much_longer_than_what_the_sdk_would_use() -> None:
    assert len(worker_name()) <= len(f"{os.getpid()}@{socket.gethostname()}") + 20
