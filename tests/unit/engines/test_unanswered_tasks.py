"""Tasks of Conductor whose worker died right after it had polled them."""

import asyncio
from typing import Any

import pytest

from podium.engines.conductor.answers import TaskSummary
from podium.engines.conductor.names import Domain, Names
from podium.engines.conductor.unanswered import UnansweredTasks

NAMES = Names.of_store("0123456789abcdef")
DOMAIN = Domain("queue.r1@here", "here")


class Server:
    """What `polled` answers, and what was put back."""

    def __init__(self) -> None:
        self.polled_tasks: list[TaskSummary] = []
        self.put_back: list[str] = []

    async def polled(self, task: str) -> list[TaskSummary]:
        return self.polled_tasks if task == NAMES.decider else []

    async def update(self, task: Any, status: str, *, callback_after: int) -> bool:
        assert (status, callback_after) == ("IN_PROGRESS", 0)
        self.put_back.append(task.task_id)
        return True


class Place:
    def __init__(self) -> None:
        self.server = Server()
        self.now = 0.0
        self._tasks = UnansweredTasks(self.server, NAMES, DOMAIN, clock=lambda: self.now)  # type: ignore[arg-type]

    def look(self, now: float, *polled: TaskSummary) -> list[str]:
        """Returns what was put back until now."""
        self.now, self.server.polled_tasks = now, list(polled)
        asyncio.run(self._tasks.look())
        return self.server.put_back


def polled(task_id: str, at: str = "10:00:00", domain: str = DOMAIN.name) -> TaskSummary:
    return TaskSummary(task_id, f"execution of {task_id}", at, domain)


@pytest.mark.rule("CN20")
def test_a_task_without_an_answer_is_put_back_once() -> None:
    place = Place()
    assert place.look(0, polled("a")) == []
    assert place.look(4, polled("a")) == []
    assert place.look(7, polled("a")) == ["a"]
    assert place.look(8, polled("a")) == ["a"]


@pytest.mark.rule("CN20")
def test_a_task_that_was_answered_is_left_alone() -> None:
    place = Place()
    place.look(0, polled("a"))
    place.look(4)
    assert place.look(20, polled("a", at="10:00:19")) == []


@pytest.mark.rule("CN20")
def test_a_task_that_was_polled_again_has_time_again() -> None:
    place = Place()
    place.look(0, polled("a"))
    assert place.look(7, polled("a", at="10:00:05")) == []


@pytest.mark.rule("CN20")
def test_a_task_of_another_domain_is_left_to_its_workers() -> None:
    place = Place()
    place.look(0, polled("a", domain="elsewhere"))
    assert place.look(60, polled("a", domain="elsewhere")) == []
