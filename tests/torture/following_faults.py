"""Followers with a fault each: the random host has to notice every one of them."""

from collections.abc import Collection, Iterable
from typing import Final

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType
from podium.machine.carried import Carried
from podium.machine.commands import CancelTask, RunTask
from podium.machine.following import Follower, Work
from podium.machine.machine import Machine
from podium.machine.task_queue import TaskKey
from tests.torture.following import NewFollower
from tests.unit.machine.hosting import IDENTITY


class _FoldsOutOfOrder(Follower):
    def learn(self, events: Iterable[LoggedEvent]) -> None:
        for event in events:
            self._fold(event)


class _ReportsNoGap(Follower):
    @property
    def has_gap(self) -> bool:
        return False


class _SkipsWhatIsMissing(Follower):
    def learn(self, events: Iterable[LoggedEvent]) -> None:
        super().learn(events)
        if self._ahead:
            self.accept_gap(max(self._ahead))


class _StartsWithoutRoom(Follower):
    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, IDENTITY)
        self._queue.has_room = lambda: True  # type: ignore[method-assign]


class _StartsWhileHeld(Follower):
    def take(self, *, starts: bool = True) -> Work:
        reasons, self.machine.hold.reasons = self.machine.hold.reasons, []
        try:
            return super().take(starts=starts)
        finally:
            self.machine.hold.reasons = reasons


class _LosesStopCodes(Follower):
    def _stop(self, command: CancelTask) -> None:
        super()._stop(command)
        self._stop_codes.clear()


class _ForgetsCarriedEvents(Follower):
    def carry(self, task: RunTask, events: list[EventDraft], dropped: list[str] | None = None) -> None:
        super().carry(task, [], dropped)


class _LetsCarriedEventsComeLate(Follower):
    def take(self, *, starts: bool = True) -> Work:
        carried, self._carried = self._carried, Carried()
        try:
            return super().take(starts=starts)
        finally:
            self._carried = carried


class _RestartsWithoutInterrupting(Follower):
    def restart(self, carried_out_elsewhere: Collection[TaskKey] | None = None) -> None:
        super().restart(carried_out_elsewhere)
        in_doubt = {(one.path, one.attempt) for one in self._work.abandoned}
        self._work.abandoned.clear()
        for command in self.machine.outstanding():
            if isinstance(command, RunTask) and (command.path, command.attempt) in in_doubt:
                self._queue.queue(command)


class _RestartsWithWhatWasDoneBefore(Follower):
    def restart(self, carried_out_elsewhere: Collection[TaskKey] | None = None) -> None:
        waiting = list(self._queue._waiting)
        super().restart(carried_out_elsewhere)
        for task in waiting:
            self._queue.queue(task)


class _StartsTwice(Follower):
    def lost(self, task: RunTask) -> None:
        super().lost(task)
        self._queue.put_back(task)


class _LosesRefusedAttempts(Follower):
    def refused(self, task: RunTask) -> None:
        self._take_back((task.path, task.attempt))


class _KeepsSlotsOfRefused(Follower):
    def refused(self, task: RunTask) -> None:
        super().refused(task)
        self._queue.occupy([(task.path, task.attempt)])


class _AnswersNoCancelOfUnknownTasks(Follower):
    def _answer(self, end: EventDraft) -> None:
        pass


class _InterruptsWhatHasEnded(Follower):
    def performed(self, task: RunTask, stopped: dict[str, object] | None = None) -> None:
        super().performed(task, stopped)
        if not task.step.idempotent and self._is_awaited((task.path, task.attempt)):
            self.submit(EventDraft(EventType.STEP_INTERRUPTED, task.path, task.attempt))


class _HandsOutCancelledTimers(Follower):
    def _cancel_timer(self, key: str) -> None:
        self._work.cancelled_timers.append(key)


class _RecordsAfterTheEnd(Follower):
    def _has_decided_the_end(self) -> bool:
        return False


class _KeepsWakeUps(Follower):
    def take(self, *, starts: bool = True) -> Work:
        work = super().take(starts=starts)
        work.dropped = work.dropped[1:]
        return work


def _new(kind: type[Follower]) -> NewFollower:
    return lambda machine: kind(machine, IDENTITY)


FAULTS: Final[dict[str, NewFollower]] = {
    "folds out of order": _new(_FoldsOutOfOrder),
    "reports no gap": _new(_ReportsNoGap),
    "skips what is missing": _new(_SkipsWhatIsMissing),
    "starts without room": _StartsWithoutRoom,
    "starts while held": _new(_StartsWhileHeld),
    "loses stop codes": _new(_LosesStopCodes),
    "forgets carried events": _new(_ForgetsCarriedEvents),
    "lets carried events come late": _new(_LetsCarriedEventsComeLate),
    "restarts without interrupting": _new(_RestartsWithoutInterrupting),
    "restarts with what was done before": _new(_RestartsWithWhatWasDoneBefore),
    "starts twice": _new(_StartsTwice),
    "loses refused attempts": _new(_LosesRefusedAttempts),
    "keeps the slots of refused attempts": _new(_KeepsSlotsOfRefused),
    "answers no cancel of unknown tasks": _new(_AnswersNoCancelOfUnknownTasks),
    "interrupts what has ended": _new(_InterruptsWhatHasEnded),
    "records something after the end": _new(_RecordsAfterTheEnd),
    "hands out cancelled timers": _new(_HandsOutCancelledTimers),
    "keeps wake-ups": _new(_KeepsWakeUps),
}
