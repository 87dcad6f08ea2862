"""Performs what the machine ordered: tasks, probes, timers. Each answer is put into the inbox."""

from podium.log.events import EventType
from podium.machine.answers import stop_code
from podium.machine.commands import CancelTask, Command, Probe, RunTask, SetTimer
from podium.runtime.inbox import Inbox, PendingEvent
from podium.runtime.task_slots import TaskSlots
from podium.runtime.tasks.order import TaskResult, stopped
from podium.runtime.timers import Timers
from podium.runtime.view_feed import ViewFeed
from podium.runtime.world import World


class Actions:
    def __init__(self, world: World, inbox: Inbox, slots: TaskSlots, timers: Timers, feed: ViewFeed) -> None:
        self._world = world
        self._inbox = inbox
        self._slots = slots
        self._feed = feed
        self.timers = timers

    def start(self, task: RunTask) -> None:
        key = (task.path, task.attempt)
        engine_attempt = self._slots.engine_attempt(key)
        if not task.step.idempotent:
            self._feed.sync()

        def done(result: TaskResult) -> None:
            self._inbox.submit(PendingEvent(result.event_type, *key, result.payload, engine_attempt))

        self._world.tasks.start(task, engine_attempt, done)

    def stop(self, command: CancelTask) -> None:
        """Every CancelTask is answered, including those for unknown tasks."""
        key = (command.path, command.attempt)
        self._slots.drop(key)
        if self._inbox.answers(key):
            return  # its end is being recorded
        if not self._world.tasks.stop(*key, command.code, force=command.force):
            ended = stopped(stop_code(command))
            attempt = self._slots.engine_attempt(key)
            self._inbox.submit(PendingEvent(ended.event_type, *key, ended.payload, attempt))

    def probe(self, probe: Probe) -> None:
        payload = {"key": probe.key, "answers": [self._world.ask(question) for question in probe.questions]}
        self._inbox.submit(PendingEvent(EventType.PROBE_ANSWERED, payload=payload, subject=probe.key))

    def is_under_way(self, command: Command) -> bool:
        """Whether it is carried out already, or its answer is about to be recorded."""
        match command:
            case RunTask():
                key = (command.path, command.attempt)
                return self._slots.is_running(key) or self._inbox.answers(key)
            case SetTimer():
                return command.key in self.timers or self._inbox.answers(command.key)
            case Probe():
                return self._inbox.answers(command.key)
            case _:
                return False
