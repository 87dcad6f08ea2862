"""Violations of docs/conformance/workflow-engine.md, and of what execution-semantics.md says about engines."""

from typing import Final

from tests.planted.edits import body, drop, swap
from tests.planted.faults import Fault, fault

_FOLLOWER = "machine/following.py:Follower"
_CARRIED = "machine/carried.py:Carried"
_ATTEMPT = "runtime/engine_attempt.py:EngineAttempt"
_RUNS = "runtime/hosted_runs.py:HostedRuns"
_VIEWS = "runtime/followed_views.py:FollowedViews"
_TEMPORAL = "engines/temporal"
_WORKFLOW = f"{_TEMPORAL}/workflow.py:_WorkflowLoop"
_LOOP = "engines/run_loop.py:RunLoop"
_OPENING = "engines/opening.py:Opening"
_QUEUES = f"{_TEMPORAL}/names.py:Queues"
_PROMISES = "testing/engine_promises"

_FOLLOWING: Final[list[Fault]] = [
    fault(
        "EN01",
        "what was folded is folded again",
        swap(f"{_FOLLOWER}.learn", "if event.run_seq > machine.last_seq: ...", "self._fold(event)"),
    ),
    fault(
        "EN01",
        "a gap is accepted up to whatever is known",
        swap(f"{_FOLLOWER}.accept_gap", "one <= read_to", "True"),
    ),
    fault("EN01", "a gap is not reported", body(f"{_FOLLOWER}.has_gap", "return False")),
    fault("EN02", "a started attempt takes no slot", drop(f"{_FOLLOWER}.take", "self._queue.occupy((key,))")),
    fault(
        "EN02",
        "an attempt starts without its event",
        drop(f"{_FOLLOWER}.take", "if not self.machine.has_started(*key): ..."),
    ),
    fault(
        "EN03",
        "what a worker was to record is lost with it",
        drop(f"{_CARRIED}.take_back", "self._is_taken_back |= dropped is not None"),
    ),
    fault("EN03", "what a slow worker carries is overtaken", body(f"{_FOLLOWER}.carry", "return")),
    fault(
        "EN03",
        "what a worker has recorded is recorded again",
        drop(f"{_CARRIED}.folded", "self._events.pop(_identity_of(event), None)"),
    ),
    fault(
        "EN03",
        "wake-ups of a lost worker are forgotten",
        swap(f"{_CARRIED}.take_back", "dropped or []", "[]"),
    ),
    fault(
        "EN04",
        "every stopped attempt was cancelled",
        drop(f"{_FOLLOWER}._stop", "self._stop_codes.setdefault(key, code)"),
    ),
    fault(
        "EN04",
        "a stop of what waits for a slot is not answered",
        drop(f"{_FOLLOWER}._stop", "self._answer(_stopped(key, code))"),
    ),
    fault("EN04", "a stopped attempt ends twice", drop(f"{_FOLLOWER}.performed", "self._answered.add(key)")),
    fault(
        "EN04",
        "events follow the end of the run",
        body("machine/following.py:_to_the_end", "return events"),
    ),
    fault(
        "EN05",
        "a restarted host does again what it has read",
        drop(f"{_FOLLOWER}.restart", "self._queue.clear_queue()"),
    ),
    fault(
        "EN05",
        "what was being stopped is left running after a restart",
        swap(
            f"{_FOLLOWER}.restart",
            "self._abandon(key, _stopped(key, stop_code(command)))",
            "self._obey((command,))",
        ),
    ),
    fault(
        "EN05",
        "what was submitted before a restart is lost",
        swap(f"{_FOLLOWER}.restart", "list(self._submitted)", "[]"),
    ),
    fault(
        "EN05", "an attempt that has ended is started again", drop(f"{_FOLLOWER}.lost", "if not ...: return")
    ),
    fault(
        "G42",
        "a signal is stored without a wake-up",
        swap("runtime/signalling.py:append_signal", "run.provider != LOCAL", "False"),
    ),
    fault(
        "G42",
        "the wake-up of a signal is never dropped",
        drop(f"{_FOLLOWER}._fold", "self._work.dropped.append(...)"),
    ),
    fault(
        "G42",
        "workers do not repeat a nudge",
        swap("engines/nudging.py:Nudger.nudge", "self._send(run_id)", "asyncio.sleep(0, True)"),
    ),
]

_WORKERS: Final[list[Fault]] = [
    fault(
        "EN06",
        "what precedes an attempt is recorded before it, in a transaction of its own",
        swap(
            f"{_ATTEMPT}.carry_out",
            "started = await self._start(writes)",
            "await self._parts.store.append(self._run_id, writes, fence=self._lease._run_fence)\n"
            "started = await self._start(writes)",
        ),
    ),
    fault(
        "EN06",
        "a run that could not be prepared is never prepared again",
        drop(f"{_RUNS}._left", "del self._entries[run_id]"),
    ),
    fault(
        "EN07",
        "a forced stop is as patient as any other",
        swap(f"{_ATTEMPT}._on_stop", "force=self._stop.is_forced", "force=False"),
    ),
    fault(
        "EN07",
        "a stop does not reach an attempt of another worker",
        swap(f"{_ATTEMPT}._start", "self._takes_over or holders.is_gone(holder.owner)", "False"),
    ),
    fault(
        "EN07",
        "a stopped attempt is its worker's until the lease lapses",
        drop(f"{_ATTEMPT}._conclude", "await self._lease.release()"),
    ),
    fault(
        "EN07",
        "an attempt that was stopped before it started does its work",
        swap(f"{_ATTEMPT}._under_lease", "self._reason is not None or self._stop.is_asked", "False"),
    ),
    fault(
        "EN07",
        "the end of a stopped attempt is recorded by its worker, without a reason",
        swap(f"{_ATTEMPT}._conclude", "code == _STOPPED and self._stop.is_asked", "False"),
    ),
    fault(
        "EN08",
        "a worker that stops keeps the leases of its attempts",
        body(f"{_ATTEMPT}._release", "return"),
    ),
    fault(
        "EN08",
        "a worker that is closed starts attempts",
        swap("runtime/attempts.py:Attempts.perform", "self._is_closed", "False"),
    ),
    fault(
        "EN09",
        "a run is prepared for every attempt",
        swap(f"{_RUNS}.use", "entry is None", "True"),
    ),
    fault(
        "EN09",
        "a run is closed although an attempt uses it",
        swap(f"{_RUNS}._idle_runs", "not entry.users", "True"),
    ),
    fault("EN09", "any number of idle runs is kept", swap(f"{_RUNS}._left", "self._max_idle", "10 ** 6")),
    fault("EN09", "an idle run is never closed", body(f"{_RUNS}._close_idle", "return")),
    fault(
        "EN09",
        "a run is prepared while it is being closed",
        swap(f"{_RUNS}.use", "(closing := self._closing.get(run_id)) is not None", "False"),
    ),
    fault(
        "EN10",
        "every worker writes the files of a run",
        drop(f"{_VIEWS}._write", "await lock.take(_no_lease, wait=0)"),
    ),
    fault(
        "EN10",
        "a worker that does not get the directory does not try again",
        swap(f"{_VIEWS}._follow", "await asyncio.sleep(_LOCKED_SECONDS)", "return None", nth=2),
    ),
    fault(
        "EN10",
        "the files are not written any more after an outage of the store",
        swap(f"{_VIEWS}._follow", "await asyncio.sleep(_AWAY_SECONDS)", "return None"),
    ),
    fault(
        "EN11",
        "the local engine drives runs of others",
        body("runtime/other_engines.py:check_local", "return"),
    ),
    fault(
        "EN11",
        "a run of another engine has no driver",
        swap("operations/driving.py", "is_elsewhere(run)", "False"),
    ),
]

_ON_TEMPORAL: Final[list[Fault]] = [
    fault(
        "EN12",
        "small plans are in the history",
        swap(f"{_TEMPORAL}/converter.py:_JsonConverter.to_payload", "isinstance(value, OpenedRun)", "False"),
    ),
    fault(
        "EN12",
        "a megabyte may be in the history",
        swap(f"{_TEMPORAL}/converter.py", "64 * 1024", "1024 * 1024"),
    ),
    fault(
        "EN12",
        "the order of a step repeats its start",
        swap(f"{_TEMPORAL}/messages.py:AttemptArgs.of", "not before or before[-1] != start", "True"),
    ),
    fault("EN13", "a run never continues in a new execution", body(f"{_WORKFLOW}.may_start", "return True")),
    fault(
        "EN13",
        "nothing starts from the first suggestion on",
        swap(f"{_WORKFLOW}.may_start", "not is_full and bool(self.attempts)", "False"),
    ),
    fault(
        "EN14",
        "attempts start after the timers are set",
        swap(
            f"{_LOOP}._act",
            "for key in work.cancelled_timers: ...",
            "for timer in work.timers:\n    self._set_timer(timer)\nwork.timers = []\n"
            "for key in work.cancelled_timers:\n    self._drop_timer(key)",
        ),
    ),
    fault(
        "EN14",
        "workers of other rules serve the queue",
        swap(f"{_TEMPORAL}/names.py:_common", "f'{queue}.r{RULES_VERSION}'", "queue"),
    ),
    fault(
        "EN15",
        "a run whose execution is gone waits for ever",
        body(f"{_TEMPORAL}/worker.py:TemporalWorker._restart_if_lost", "return"),
    ),
    fault(
        "EN16",
        "a run is created although no worker serves its queue",
        body(f"{_TEMPORAL}/client.py:require_worker", "return"),
    ),
    fault(
        "EN16",
        "a run is created although its execution id is in use",
        swap(
            f"{_TEMPORAL}/engine.py:TemporalEngine.require_place",
            "await temporal.is_open(client, run_id)",
            "False",
        ),
    ),
    fault(
        "EN16",
        "a worker that was killed still serves its queue",
        body("engines/worker_names.py:is_gone", "return False"),
    ),
    fault(
        "EN17",
        "an execution that has ended is not named",
        swap(
            f"{_TEMPORAL}/trouble.py:_of_execution",
            "found.status is not WorkflowExecutionStatus.RUNNING",
            "False",
        ),
    ),
    fault(
        "EN17",
        "the rules that a worker must have are not named",
        swap(f"{_TEMPORAL}/trouble.py:_needs", "queues.rules == RULES_VERSION", "True"),
    ),
    fault(
        "EN18",
        "payloads are not compared",
        swap(
            f"{_PROMISES}/histories.py:canonical",
            "(path, record.event_type, record.logical_attempt_id, payload)",
            "(path, record.event_type, record.logical_attempt_id, {})",
        ),
    ),
    fault(
        "EN18",
        "a second end is accepted",
        swap(
            f"{_PROMISES}/nesting.py:_Order._of_step",
            "attempt in self._ended.setdefault(path, set())",
            "self._ended.setdefault(path, set()) is None",
        ),
    ),
    fault(
        "EN18",
        "the order of a list is not compared",
        swap(f"{_PROMISES}/histories.py:canonical", "concurrent_lists(plan, history.lists)", "history.lists"),
    ),
    fault(
        "EN19",
        "attempts go to any host",
        swap(f"{_QUEUES}.of_host", "f'{_common(queue)}@{host}'", "_common(queue)"),
    ),
    fault(
        "EN19",
        "workers of one SQLite store serve those of another",
        swap(f"{_QUEUES}.beside_store", "_short(...)", "''"),
    ),
    fault(
        "EN19",
        "a worker serves decisions only",
        body(f"{_QUEUES}.served", "return (self.decisions,)"),
    ),
    fault(
        "EN20",
        "the lease of a run lapses",
        swap(
            f"{_TEMPORAL}/opening.py:ExecutionOpening.open",
            "Claimant(holders.workflow_owner(TEMPORAL, workflow_id))",
            "Claimant(holders.workflow_owner(TEMPORAL, workflow_id), self._opening._parts.lease)",
        ),
    ),
    fault(
        "EN20",
        "a run whose plan is refused stays pending",
        swap(f"{_OPENING}._fail", "run.status not in NOT_STARTED", "True"),
    ),
    fault(
        "EN20",
        "a plan is refused without an alert",
        drop(f"{_OPENING}._refuse_plan", "await Alerting(...).raise_alert(...)"),
    ),
    fault(
        "EN20",
        "a run that has ended keeps its lease",
        body(f"{_TEMPORAL}/opening.py:ExecutionOpening.close", "return"),
    ),
]

FAULTS: Final = [*_FOLLOWING, *_WORKERS, *_ON_TEMPORAL]
