"""Violations of the part of docs/conformance/workflow-engine.md that is about Conductor."""

from typing import Final

from tests.planted.edits import body, drop, swap
from tests.planted.faults import Fault, fault

_CONDUCTOR = "engines/conductor"
_TRANSPORT = f"{_CONDUCTOR}/transport.py:Transport"
_FOLLOWER = "machine/following.py:Follower"

FAULTS: Final[list[Fault]] = [
    fault(
        "CN01",
        "definitions of a newer Podium are overwritten",
        body(f"{_CONDUCTOR}/definitions.py:require_own_version", "return"),
    ),
    fault(
        "CN01",
        "tasks have the settings of the server",
        swap(f"{_CONDUCTOR}/definitions.py:task_definitions", "{'name': name, **settings}", "{'name': name}"),
    ),
    fault(
        "CN02",
        "the page of another server is taken for an answer of Conductor",
        body(f"{_CONDUCTOR}/transport.py:_is_of_conductor", "return True"),
    ),
    fault(
        "CN02",
        "a refused token is reported as another kind of server",
        drop(f"{_TRANSPORT}.failure", "if status in _UNAUTHORIZED: ..."),
    ),
    fault(
        "CN02",
        "a connection shows its token",
        swap(f"{_CONDUCTOR}/connection.py:Connection.__repr__", "self.queue", "self.token"),
    ),
    fault(
        "CN02",
        "a server that is not healthy is used",
        drop(f"{_CONDUCTOR}/client.py:ConductorClient.check", "if not ...: ..."),
    ),
    fault(
        "CN03",
        "two stores share their definitions",
        swap(f"{_CONDUCTOR}/names.py:Names.of_store", "store_id[:_STORE_DIGITS]", "'all'"),
    ),
    fault(
        "CN03",
        "folders of several hosts share a domain",
        swap(f"{_CONDUCTOR}/names.py:Domain.of_shared_runs", "mark.encode()", "b''"),
    ),
    fault(
        "CN03",
        "a worker of another domain is enough",
        swap(f"{_CONDUCTOR}/workers.py:is_polled", "one.domain == domain.name", "True"),
    ),
    fault(
        "CN03",
        "a worker that has ended is enough",
        swap(f"{_CONDUCTOR}/workers.py:is_polled", "not is_gone(one.worker_id)", "True"),
    ),
    fault(
        "G37",
        "Conductor does not show that a run is paused",
        body(f"{_CONDUCTOR}/mirroring.py:Mirror._set", "return"),
    ),
    fault(
        "CN04",
        "a waiting run that is terminated in Conductor continues",
        swap(f"{_CONDUCTOR}/reconciling.py:Reconciler._compare", "is_terminated_by_hand(found)", "False"),
    ),
    fault(
        "CN04",
        "a run that has moved since is taken for one that waits",
        swap(
            f"{_CONDUCTOR}/reconciling.py:Reconciler._look_at",
            "await self._still_waits(run)",
            "await self._waits(run)",
        ),
    ),
    fault(
        "CN04",
        "a pause in Conductor is undone",
        drop(f"{_CONDUCTOR}/kept_run.py:KeptRun._pause_or_resume", "await wish(...)"),
    ),
    fault(
        "CN04",
        "a run that is retried after its end does not end again",
        drop(
            f"{_CONDUCTOR}/keeping.py:KeptRuns._keep",
            "if run.status in TERMINAL and run.provider == CONDUCTOR: ...",
        ),
    ),
    fault(
        "CN04",
        "an execution that a worker ended is taken for one that a person ended",
        body(
            f"{_CONDUCTOR}/executions.py:is_terminated_by_hand",
            "return found.status == TERMINATED",
        ),
    ),
    fault(
        "CN04",
        "a pause that was not shown when a worker ended is undone by the next one",
        swap(f"{_CONDUCTOR}/kept_run.py:KeptRun._park", "self._mirror.is_true", "True"),
    ),
    fault(
        "CN05",
        "a step of another engine is carried out",
        drop(f"{_CONDUCTOR}/folding.py:FoldedRuns._open", "require_provider(...)"),
    ),
    fault(
        "CN05",
        "what is not a run id is looked for again and again",
        swap(f"{_CONDUCTOR}/executions.py:run_of", "is_id(run_id)", "True"),
    ),
    fault(
        "CN05",
        "a task of an unknown run is failed",
        swap(
            f"{_CONDUCTOR}/worker.py:ConductorWorker._perform",
            "update(task, IN_PROGRESS, callback_after=UNKNOWN_SECONDS)",
            "update(task, FAILED_FOR_GOOD)",
        ),
    ),
    fault(
        "CN07",
        "a nudge is sent once",
        swap("engines/nudging.py:Nudger._wait", "clock + seconds", "clock + 3600"),
    ),
    fault(
        "CN07",
        "a signal while a run is given back waits for the callback",
        swap(f"{_CONDUCTOR}/kept_run.py:KeptRun._wait_for", "run.head != seq", "False"),
    ),
    fault(
        "CN06",
        "a run that was created and not started stays so",
        swap(
            f"{_CONDUCTOR}/reconciling.py:Reconciler._is_being_started",
            "run.head < 2 and ...",
            "run.head < 2",
        ),
    ),
    fault(
        "CN06",
        "the executions of a pruned run stay",
        drop("operations/pruning.py:_prune", "if remove_executions is not None: ..."),
    ),
    fault(
        "CN10",
        "a worker carries out more attempts than it has slots",
        swap(f"{_CONDUCTOR}/slots.py:Slots.take", "self._used >= self.limit", "False"),
    ),
    fault(
        "CN10",
        "one run gets every free slot",
        drop(f"{_CONDUCTOR}/slots.py:Slots.offer", "self._waiting.append(take)"),
    ),
    fault(
        "CN10",
        "a slot is lost with the attempt that waited for it",
        drop(f"{_CONDUCTOR}/slots.py:Slots.acquire", "if free.is_set(): ..."),
    ),
    fault(
        "CN11",
        "an attempt that has not started is carried out",
        swap(
            f"{_CONDUCTOR}/folding.py:FoldedRun.owed",
            "visit is None or not self._machine.has_started(path, attempt)",
            "visit is None",
        ),
    ),
    fault(
        "CN11",
        "a stop does not reach the worker of an attempt",
        body(f"{_CONDUCTOR}/folding.py:FoldedRun._follow", "return"),
    ),
    fault(
        "CN11",
        "a run is not read again for its next attempt",
        drop(f"{_CONDUCTOR}/folding.py:FoldedRuns.use", "await run.read_on()"),
    ),
    fault(
        "CN12",
        "attempts that others carry out have no slot after a takeover",
        drop(f"{_FOLLOWER}._continue", "self._queue.occupy((key,))"),
    ),
    fault(
        "CN12",
        "attempts that others carry out are repeated after a takeover",
        swap(f"{_FOLLOWER}._continue", "key not in elsewhere", "True"),
    ),
    fault(
        "CN13",
        "functions of a program are accepted and never called",
        drop(
            "api/opening.py:open",
            "if engine != LOCAL and (functions or providers or nodes or record or replay): ...",
        ),
    ),
    fault(
        "CN20",
        "a worker that dies right after a poll keeps its task",
        swap(f"{_CONDUCTOR}/unanswered.py:UnansweredTasks.look", "now - since >= _SECONDS", "False"),
    ),
    fault(
        "CN20",
        "tasks of living workers are put back",
        swap(f"{_CONDUCTOR}/unanswered.py:UnansweredTasks.look", "self._since.get(one, now)", "-_SECONDS"),
    ),
    fault(
        "CN21",
        "a signal that comes while a run is given back waits for the callback",
        swap(f"{_CONDUCTOR}/kept_run.py:KeptRun._wait_for", "run.head != seq", "False"),
    ),
    fault(
        "CN21",
        "a late heartbeat puts off a run that is given back",
        drop(f"{_CONDUCTOR}/kept_run.py:KeptRun._wait_for", "await self._heartbeats.settle()"),
    ),
    fault(
        "CN21",
        "a worker gives back a run that another one has",
        drop(f"{_CONDUCTOR}/run_lease.py:RunLease.park", "raise self._taken_over()"),
    ),
    fault(
        "CN21",
        "a run is kept twice by one worker",
        drop(f"{_CONDUCTOR}/keeping.py:KeptRuns._keep", "if run_id in self._kept: ..."),
    ),
    fault(
        "CN21",
        "a repeated order replaces the attempt that is under way",
        swap("runtime/attempts.py:Attempts.perform", "not self._replaces", "False"),
    ),
    fault(
        "CN21",
        "the timer of a run that waits is known to the server only",
        drop(f"{_CONDUCTOR}/kept_run.py:KeptRun._park", "await self._remember_timer(loop.next_due())"),
    ),
]
