"""The owner of a lease names a process, and others on this host can see whether that still exists."""

import os
import signal
import subprocess
import sys

import pytest

from podium.runtime import holders


def owner_of(*, host: str = "", pid: int = 0, began: int = -1, boot: str = "", namespace: str = "") -> str:
    """This process, but for what is given."""
    mine = holders.holder_of(holders.new_owner())
    assert mine is not None
    parts = (
        host or mine.host,
        pid or mine.pid,
        mine.began if began < 0 else began,
        boot or mine.boot,
        namespace or mine.namespace,
    )
    return ":".join(map(str, (*parts, "abcdef01")))


def test_two_owners_of_one_process_differ_and_name_the_same_process() -> None:
    first, second = holders.new_owner(), holders.new_owner()
    assert first != second
    assert holders.holder_of(first) == holders.holder_of(second)
    assert holders.is_alive_here(first)
    assert not holders.is_gone(first)
    assert f"process {os.getpid()} on " in holders.describe(first)


@pytest.mark.rule("D32")
def test_a_process_that_has_ended_is_gone_also_before_its_parent_has_looked() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    owner = owner_of(pid=child.pid, began=holders.start_of(child.pid))
    assert holders.is_alive_here(owner)
    assert not holders.is_gone(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert holders.is_gone(owner)
    child.wait()
    assert holders.is_gone(owner)
    assert not holders.is_alive_here(owner)


@pytest.mark.rule("D32")
def test_another_process_with_the_same_number_is_another_holder() -> None:
    assert holders.is_gone(owner_of(began=1))


def test_a_holder_before_the_last_restart_of_the_machine_is_gone() -> None:
    assert holders.is_gone(owner_of(boot="00000000-0000-0000-0000-000000000000"))


@pytest.mark.rule("D32")
@pytest.mark.parametrize(
    "owner",
    [
        owner_of(host="elsewhere", began=1),
        owner_of(host="elsewhere", boot="another"),
        owner_of(namespace="1", began=1),
        "me",
        "host:12:abcdef01",
        "a:b:c:d:e:f",
        "",
    ],
    ids=["another host", "another host's boot", "another container", "a word", "old", "no numbers", "empty"],
)
def test_what_cannot_be_known_is_not_taken_for_gone(owner: str) -> None:
    assert not holders.is_gone(owner)
    assert not holders.is_alive_here(owner)
    assert holders.describe(owner)


def test_a_stopped_process_is_recognised_and_named() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        owner = owner_of(pid=child.pid, began=holders.start_of(child.pid))
        assert not holders.is_stopped(owner)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert holders.is_stopped(owner)
        assert holders.is_alive_here(owner)
        assert "stopped" in holders.describe(owner)
    finally:
        child.kill()
        child.wait()
