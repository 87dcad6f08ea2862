"""Random plans under deciders that die while other workers carry attempts out, as on Conductor.

What `following.py` does, with hosts that know which attempts others have: these are left alone, ends come back through
the log, and a worker that learns of a stop records the end itself. An attempt is handed out again when its worker dies.

    python -m tests.torture.deciders --seeds 10000
"""

import sys
from typing import Final

from podium.log.drafts import EventDraft
from podium.log.events import EventType
from podium.machine.answers import stop_code, stopped_payload
from podium.machine.commands import CancelTask
from podium.machine.following import Abandoned, Work
from tests.torture.following import Following, Host, NewFollower, Worker, follower_of, main, outcome_of
from tests.torture.simulated_log import Key

_EXPECTED: Final = (
    "handed out again",
    "left alone",
    "restarts",
    "stopped by its worker",
    "stopped without a worker",
)


class Deciders(Following):
    """One run. A worker without a host has an attempt that was handed out."""

    def __init__(self, seed: int, *, plain: bool = False, new_follower: NewFollower = follower_of) -> None:
        super().__init__(seed, plain=plain, new_follower=new_follower)
        self.elsewhere: set[Key] = set()
        self.codes: dict[Key, str] = {}

    # --- another decider --------------------------------------------------------------------------

    def _restart(self) -> None:
        self.done["restarts"] += 1
        for worker in list(self.workers):
            # What was to start with its first event starts under the lease of the decider, which is gone.
            is_lost = worker.before and not (worker.is_working or worker.is_done)
            worker.host = None
            if is_lost or self.random.random() < 0.3:
                self._remove(worker)
        machine = self._machine_from_the_log()
        self.host = Host(self.new_follower(machine), first=machine.last_seq)
        self._read()
        if self.machine.root is None and not self.machine.ends_before_start:
            self.follower.submit(EventDraft(EventType.RUN_STARTED, payload=self.start_facts))
        self.elsewhere = {
            one.key for one in self.workers if not one.is_fenced and machine.has_started(*one.key)
        } & set(machine.waits)
        self.host.under_way |= self.elsewhere
        self.done["left alone"] += len(self.elsewhere)
        self.follower.restart(self.elsewhere)

    def _check_work(self, work: Work) -> None:
        for task in work.starts:
            assert (task.path, task.attempt) not in self.elsewhere, (
                f"{task.path} starts and another worker has it"
            )
        super()._check_work(work)
        busy = max(self.follower.running, len(self.host.under_way))
        assert not work.starts or busy <= self.plan.workflow.max_parallel, "starts without a free slot"

    def _has_too_many(self) -> bool:
        """After a restart also attempts have a slot that were being ended, or whose workers were taken for dead."""
        return False

    def _begin(self, work: Work) -> None:
        super()._begin(work)
        for command in work.stops:
            self._stop(command)

    def _stop(self, command: CancelTask) -> None:
        """The worker that has it learns of it from the log; the decider ends what no worker has."""
        key, code = (command.path, command.attempt), stop_code(command)
        self.codes.setdefault(key, code)
        having = [one for one in self.workers if one.key == key and not one.is_fenced]
        for worker in having:
            worker.is_stopped = True
        if not having and not any((one.path, one.attempt) == key for one in self.host.abandoned):
            self.done["stopped without a worker"] += 1
            self.host.abandoned.append(Abandoned(*key, self._stopped(key)))

    def _stopped(self, key: Key) -> EventDraft:
        return EventDraft(EventType.STEP_FAILED, *key, stopped_payload(self.codes[key], {}))

    # --- workers ----------------------------------------------------------------------------------

    def _move(self, worker: Worker) -> None:
        if worker.host is not None:
            super()._move(worker)
        elif worker.is_fenced or worker.is_done:
            self._remove(worker)
        elif self.random.random() < 0.1:
            self._hand_out_again(worker)
        elif not worker.is_working:
            self._start_orphan(worker)
        elif worker.is_stopped and self.random.random() < 0.7:
            self._record_stop(worker)
        elif (end := self.end_of(worker.task)) is not None:
            self._record_end(worker, end)

    def _start_orphan(self, worker: Worker) -> None:
        if not worker.is_stopped or worker.key in self.store.ends:
            self._start(worker)
        elif worker.key not in self.holders:
            self.generations[worker.key] += 1
            self._record_stop(worker)

    def _record_stop(self, worker: Worker) -> None:
        self.done["stopped by its worker"] += 1
        self._record_end(worker, self._stopped(worker.key))

    def _hand_out_again(self, worker: Worker) -> None:
        """Unless its start is not in the log: then its decider has queued it again."""
        self._remove(worker)
        if worker.is_working or not worker.before:
            self.done["handed out again"] += 1
            self.workers.append(Worker(worker.task, [], [], None, is_stopped=worker.is_stopped))

    def _die(self, worker: Worker) -> None:
        if worker.host is None:
            self._hand_out_again(worker)
        else:
            super()._die(worker)


def run_one(seed: int, *, plain: bool, new_follower: NewFollower = follower_of) -> tuple[str, Following]:
    """What went wrong, or nothing."""
    return outcome_of(Deciders(seed, plain=plain, new_follower=new_follower))


if __name__ == "__main__":
    sys.exit(main("deciders", run_one, _EXPECTED, __doc__))
