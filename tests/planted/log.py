"""Violations of docs/conformance/execution-semantics.md."""

from typing import Final

from tests.planted.edits import after, before, body, drop, reword, rewrite, start, swap
from tests.planted.faults import Fault, fault

_PROJECT = "log/fold.py"

FAULTS: Final[list[Fault]] = [
    fault("ES01", "each append counts from 1", swap("stores/rules.py:records_of", "head + 1", "1")),
    fault("ES02", "the first event has number 0", swap("stores/rules.py:records_of", "head + 1", "head")),
    fault(
        "ES03",
        "of a batch only one number is used up",
        swap("stores/rules.py:row_after", "row.head + stored", "row.head + 1"),
    ),
    fault(
        "ES04", "keys are not kept", drop("stores/memory/log.py:MemoryLog._store", "kept.by_key.update(...)")
    ),
    fault(
        "ES04",
        "SQLite does not look keys up",
        reword("stores/sqlite/appending.py", "run = number AND key = ?", "run = number AND ? IS NULL"),
    ),
    fault(
        "ES05",
        "a gap is folded without a word",
        swap(f"{_PROJECT}:gap_between", "next_seq > last_seq + 1", "False"),
    ),
    fault(
        "ES06",
        "the key has the engine's attempt",
        swap(
            "runtime/writing.py:new_event",
            "key_v1(run.run_id, slot, attempt, event_type, run.plan_version)",
            "key_v1(run.run_id, slot, engine_attempt, event_type, run.plan_version)",
        ),
    ),
    fault(
        "ES06",
        "the parts of the key change their order",
        swap(
            "log/keys.py:key_v1",
            "_sha256(...)",
            "_sha256(f'{slot}|{run_id}|{logical_attempt_id}|{event_type}|{plan_version}')",
        ),
    ),
    fault(
        "ES07",
        "a projection continues after a gap",
        swap(f"{_PROJECT}:_Fold.take", "return False", "self._seq = seq"),
    ),
    fault(
        "ES08",
        "events are folded in the order of their clocks",
        swap(
            f"{_PROJECT}:project_more",
            "for record in events: ...",
            "for record in sorted(events, key=lambda one: one.emitted_at): ...",
        ),
    ),
    fault(
        "ES08",
        "a watcher gets the newest first",
        swap("stores/memory/log.py:MemoryLog.watch", "yield records", "yield records[::-1]"),
    ),
    fault(
        "ES09",
        "older snapshots see what came later",
        drop(f"{_PROJECT}:Steps.put", "older._before[step_id] = known"),
    ),
    fault(
        "ES10",
        "a run follows events that are not possible",
        drop(f"{_PROJECT}:_Fold._take_run", "if self._status not in before: ..."),
    ),
    fault(
        "ES10",
        "an attempt that has ended ends again",
        swap(f"{_PROJECT}:_Step.take", "self.status not in before", "False"),
    ),
    fault("ES11", "events are folded again", swap(f"{_PROJECT}:_Fold.take", "seq <= self._seq", "False")),
    fault(
        "ES11",
        "an older snapshot replaces a newer one",
        swap(
            "stores/memory/snapshots.py:MemorySnapshots.save_snapshot",
            "kept.summary is not None and kept.summary.last_event_seq > summary.last_event_seq",
            "False",
        ),
    ),
    fault(
        "ES12",
        "lag is not reported",
        drop("runtime/projecting.py:Projecting._measure_lag", "self._alerting.lag_is_high(self.lag)"),
    ),
    fault(
        "ES12",
        "lag is reported only after a minute",
        swap("runtime/projecting.py", "LAG_ALERT_SECONDS: Final = 5.0", "LAG_ALERT_SECONDS: Final = 60.0"),
    ),
    fault("ES12", "a gap raises no alert", drop(f"{_PROJECT}:_Fold._report_gap", "self._alerts.append(...)")),
    fault(
        "ES13",
        "unknown types do not move the watermark",
        before(
            f"{_PROJECT}:_Fold.take", "self._seq = seq", "if record.event_type not in _KNOWN: return True"
        ),
    ),
    fault(
        "ES13",
        "an unknown type makes a run inconsistent",
        before(
            f"{_PROJECT}:_Fold.take",
            "event_type = record.event_type",
            "if record.event_type not in _KNOWN: self._illegal(record)",
        ),
    ),
    fault(
        "ES14",
        "a plan takes the value of a secret along",
        swap(
            "plan/loading.py:plan_of",
            "description=description",
            "description=(description or '') + __import__('os').environ.get('GITHUB_TOKEN', '')",
        ),
    ),
    fault(
        "ES15",
        "the start of a large value stays in the log",
        swap(
            "runtime/spilling.py:spill",
            "{_MARK: msgspec.to_builtins(ref)}",
            "{_MARK: msgspec.to_builtins(ref), 'start': fields[name][:100]}",
        ),
    ),
    fault(
        "ES16",
        "DELAY is not waited for",
        drop("stores/rules.py:may_start", "if row.start_at is not None and row.start_at > now: ..."),
    ),
    fault(
        "ES16",
        "QUEUE starts more runs than the limit",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "self._has_room(kept)", "True"),
    ),
    fault(
        "ES16",
        "REJECT refuses nothing",
        swap("stores/memory/log.py:MemoryLog.create_run", "new.backpressure is Backpressure.REJECT", "False"),
    ),
    fault(
        "ES17",
        "a repeated request makes another run",
        swap("stores/memory/log.py:MemoryLog.create_run", "earlier is not None", "False"),
    ),
    fault(
        "ES17",
        "a run id is used for two requests",
        swap("stores/memory/log.py:MemoryLog.create_run", "run_id in self._runs", "False"),
    ),
    fault(
        "ES18",
        "a run is handed out to two",
        swap(
            "stores/memory/pools.py:MemoryPools._next_of_pool",
            "not self._is_live(kept, '')",
            "not self._is_live(kept, '') or kept.leases[''].generation < 2",
        ),
    ),
    fault(
        "ES19",
        "an event is tried for ever",
        swap("runtime/relay.py:Relay._failed", "failures >= self._max_failures", "False"),
    ),
    fault(
        "ES19",
        "a bus gets events of types that it does not want",
        swap("log/outbox.py:BusFilter.wants", "event_type not in self.event_types", "False"),
    ),
    fault(
        "ES19",
        "a bus gets events of plans that it does not want",
        swap("log/outbox.py:BusFilter.wants", "plan_id not in self.plans", "False"),
    ),
    fault(
        "ES19",
        "a completed step publishes nothing",
        swap("machine/attempts.py:publish", "[message]", "[]"),
    ),
    fault("ES19", "pauses do not grow", swap("runtime/relay.py:pause_after", "1 << doublings", "1")),
    fault("ES19", "without jitter", swap("runtime/relay.py:pause_after", "1 - jitter / 2", "1")),
    fault(
        "ES19",
        "a dead letter raises no alert",
        drop("runtime/relay.py:Relay._failed", "await self._raise_alert(claim, failures, error)"),
    ),
    fault(
        "ES20",
        "what is not stored in time fails open",
        swap("runtime/recording.py:Recorder._append", "raise StoreUnavailable(...) from error", "return ()"),
    ),
    fault(
        "ES21",
        "a field that does not fit fails the projection",
        swap("log/payloads.py:read_as", "return _read_what_fits(schema, payload)", "raise"),
    ),
    fault(
        "ES21",
        "a store keeps known types only",
        swap(
            "stores/memory/log.py:MemoryLog._store",
            ("kept.log += stored", "stored"),
            "[r for r in stored if r.event_type[:3] in ('Run', 'Ste')]",
        ),
    ),
    fault(
        "G05",
        "attempts count from 0",
        swap("stores/rules.py:records_of", "write.logical_attempt_id", "write.logical_attempt_id - 1"),
    ),
    fault(
        "G05",
        "the engine's attempt is not kept",
        swap("stores/rules.py:records_of", "write.engine_attempt_id", "1"),
    ),
    fault(
        "G06",
        "a repeated process is not counted as an engine attempt",
        swap(
            "runtime/task_slots.py:TaskSlots.start_over",
            "self.engine_attempt(key) + 1",
            "self.engine_attempt(key)",
        ),
    ),
    fault(
        "G07",
        "a retry has the attempt of what failed",
        drop("machine/attempts.py:back_off", "next_attempt(visit)"),
    ),
    fault(
        "G08",
        "a repeated event is an error",
        swap("stores/rules.py:outcome", "_differs(write, earlier)", "1 / 0"),
    ),
    fault(
        "G08",
        "a repeated event is said to be new",
        swap("stores/rules.py:outcome", "duplicate=True", "duplicate=False"),
    ),
    fault(
        "G08",
        "repeated events reach the outbox again",
        after(
            "stores/memory/log.py:MemoryLog.append",
            "fresh = ...",
            "for lines in self._buses.values():\n    lines[run_id].waiting.extend(record.run_seq for record in known.values())",
        ),
    ),
    fault(
        "G09",
        "a gap is never accepted",
        swap("runtime/projecting.py:Projecting._fold", "accept_gaps=True", "accept_gaps=False"),
    ),
    fault(
        "G11",
        "a run that needs approval starts without",
        swap("stores/rules.py:may_start", "not row.needs_approval", "True"),
    ),
    fault(
        "G11",
        "a run that was not approved can be started",
        swap("stores/rules.py:check_approved", "approval is None", "False"),
    ),
    fault(
        "G11",
        "an approved run starts with another plan",
        swap("stores/rules.py:_check_approved_plan", "approved is None or approved != actual", "False"),
    ),
    fault(
        "G11",
        "an approval of any plan is taken",
        drop("operations/run_approval.py:answer_plan", "await _check_plan(...)"),
    ),
    fault(
        "G11",
        "a run can be approved twice",
        drop("operations/run_approval.py:answer_plan", "await _require_undecided(...)"),
    ),
    fault(
        "G11",
        "a second approval of the plan answers a step",
        swap("operations/run_approval.py:is_about_plan", "run.needs_approval and ...", "False"),
    ),
    fault(
        "G11",
        "a plan that a person has replaced starts in place of the approved one",
        drop("operations/structure.py:replace_workflow", "if run.needs_approval: ..."),
        drop("runtime/plan_file.py:accepted_hashes", "if run.needs_approval: ..."),
        drop("engines/hosting.py:prepare_run", "if run.needs_approval: ..."),
        swap("stores/rules.py:_check_approved_plan", "approved is None or approved != actual", "False"),
    ),
    fault(
        "G11",
        "a rerun takes the approval of the earlier plan for that of a step",
        swap("runtime/takeover.py:Takeovers._copies", "record.run_seq < started", "False"),
    ),
    fault(
        "G11",
        "a rerun needs no approval if only its original was asked to wait for one",
        drop("operations/rerunning.py:_request", "needs_approval=run.needs_approval"),
    ),
    fault(
        "G11",
        "an imported run needs no approval if its header says so",
        swap("operations/transfer.py:with_approval", "new.needs_approval or ...", "new.needs_approval"),
    ),
    fault(
        "G11",
        "an approval in an export counts without an approver",
        drop("operations/import_checks.py:check_import", "await _require_approver(...)"),
    ),
    fault(
        "G11",
        "a worker loses the nudge for an approval",
        swap("engines/opening.py:Opening._drop_wake_ups", "record.run_seq <= run.head", "True"),
    ),
    fault(
        "G11",
        "a run that waits for approval does not say so",
        swap(f"{_PROJECT}:_Fold._take_run", "'WAITING_APPROVAL' if ... else None", "None"),
    ),
    fault(
        "G12",
        "a run is created without its first event",
        swap("stores/memory/log.py:MemoryLog.create_run", "rules.new_writes(writes, {})", "[]"),
    ),
    fault(
        "G12",
        "first events do not reach the outbox",
        swap("stores/sqlite/log.py:create_run", "outbox.enqueue(...)", "None"),
    ),
    fault(
        "G13",
        "a step in doubt runs again",
        swap("runtime/drive.py:Driver._start_again", "not command.step.idempotent", "False"),
    ),
    fault(
        "G13",
        "a driver that has lost the run starts what was under way again",
        body("runtime/run_log.py:RunLog.prove_lease", "return"),
    ),
    fault(
        "G13",
        "a driver that has lost the run acts on what the next one has recorded",
        body("runtime/run_log.py:RunLog.has_written", "return True"),
    ),
    fault(
        "G13",
        "a worker carries out an attempt whose end is in the log",
        swap("stores/sqlite/attempts.py:start_attempt", "_end(db, number, run, claim)", "None"),
    ),
    fault(
        "G13",
        "a worker repeats a step that must not be repeated",
        swap("runtime/engine_attempt.py:EngineAttempt._under_lease", "not step.idempotent", "False"),
    ),
    fault(
        "G13",
        "what is left of other attempts is stopped together with one",
        swap(
            "runtime/tasks/dispatch.py:RunTasks.stop_orphans_of",
            "families.of_run(self._run_id, directory, visit)",
            "families.of_run(self._run_id, directory)",
        ),
    ),
    fault(
        "G14",
        "work that ends while paused is routed",
        swap(
            "machine/machine.py:Machine._work",
            "not self.hold.reasons and (self.agenda or (self.spending.moved and budgets.call_next(self)))",
            "self.agenda or (not self.hold.reasons and budgets.call_next(self))",
        ),
    ),
    fault("G14", "limits run on while paused", swap("machine/holds.py:is_due", "m.hold.reasons", "False")),
    fault(
        "G14",
        "a paused run with work under way is not DRAINING",
        swap(f"{_PROJECT}:_Fold._substatus", "'DRAINING'", "None"),
    ),
    fault(
        "G15",
        "a paused run is DRAINING for ever",
        swap(
            f"{_PROJECT}:_Fold._substatus",
            "self._status is RunStatus.PAUSED and running",
            "self._status is RunStatus.PAUSED",
        ),
    ),
    fault(
        "G15",
        "a pause that is not drained is not alerted about",
        swap("runtime/draining.py:watch_draining", "loop.time() - since >= DRAIN_SECONDS", "False"),
    ),
    fault(
        "G17",
        "a worker gives the end of an attempt up when the store is away",
        swap("runtime/run_writer.py:RunWriter.outlast", "error = unavailable", "raise unavailable"),
    ),
    fault(
        "G17",
        "an outcome that is not stored in time is dropped",
        swap("runtime/recording.py:Recorder._append", "reason = error", "return ()"),
    ),
    fault(
        "G18",
        "a run is found by the engine's name alone",
        swap(
            "stores/memory/log.py:MemoryLog.run_of_engine",
            "engine_columns(kept.row.engine)[:3] == ids",
            "kept.row.engine is not None",
        ),
    ),
    fault(
        "G19",
        "a run forgets where its plan was published",
        drop("stores/rules.py:first_row", "plan_ref=new.plan_ref"),
    ),
    fault(
        "G23",
        "a cancelled run ends before its work has stopped",
        swap("machine/stopping.py:stop_visit", "visit.handed", "False"),
    ),
    fault(
        "G28",
        "keys are hashed in the order they were written",
        swap("plan/canonical.py:canonical_json", "order='sorted'", "order=None"),
    ),
    fault(
        "G30",
        "a plan of a newer version is read",
        start("plan/loading.py:check_schema_version", "return"),
    ),
    fault("G29", "unknown keys are dropped", start("language/shapes.py:Checker._unknown_key", "return")),
    fault(
        "G31",
        "a repeated request is refused",
        swap(
            "stores/memory/log.py:MemoryLog.create_run",
            "return CreatedRun(earlier.row, (), duplicate=True)",
            "raise RunRequestConflict('again')",
        ),
    ),
    fault(
        "G32",
        "a completed step is COMPLETED",
        swap("log/transitions.py:StepStatus", "SUCCESS = 'SUCCESS'", "SUCCESS = 'COMPLETED'"),
    ),
    fault(
        "G33",
        "a snapshot does not say when the run started",
        drop(f"{_PROJECT}:_Fold._take_run", "fields['started_at'] = record.emitted_at"),
    ),
    fault(
        "G33",
        "a snapshot does not count failed steps",
        swap(f"{_PROJECT}:_counter_of", "_COUNTER_OF[newest.status]", "_COUNTER_OF[newest.status] % 4"),
    ),
    fault(
        "G24",
        "a role that is not enough is enough",
        swap("access/deciding.py:decide_by_roles", "operation.role not in roles", "False"),
    ),
    fault(
        "G24",
        "an actor who is not listed may do everything",
        swap("access/deciding.py:decide_by_roles", "not roles", "False"),
    ),
    fault(
        "G24",
        "use cases do not ask",
        swap("operations/parts.py:Parts.require", "not self.is_owner", "False"),
    ),
    fault(
        "G24",
        "what concerns all tenants is decided in one",
        swap("operations/access.py:Access.require_everywhere", "any(...)", "denials[0] is not None"),
    ),
    fault(
        "G24",
        "a role in one tenant is a role in all",
        swap(
            "access/deciding.py:RoleAuthoriser.roles",
            "self._policy.tenants.get(tenant_id)",
            "next(iter(self._policy.tenants.values()))",
        ),
    ),
    fault(
        "G35",
        "an attempt to see a run of another tenant is not recorded",
        drop("operations/guarding.py:GuardedRuns.find", "await self._store.record_audit([draft])"),
    ),
    fault(
        "G35",
        "a run of a tenant that is not the caller's is refused instead of not found",
        swap(
            "operations/guarding.py:GuardedRuns.find",
            "RunNotFound(run_id)",
            "error_of(denial, None) if denial is not None else RunNotFound(run_id)",
        ),
    ),
    fault(
        "G35",
        "a run is found by its reference alone",
        drop(
            "operations/engine_runs.py:EngineRuns._referred",
            "await referred_run(self._parts, engine_run_ref.run_id)",
        ),
    ),
    fault(
        "G35",
        "another tenant's run is found",
        swap(
            "stores/memory/tenant_runs.py:MemoryTenantRuns.find",
            "kept.row.identity.tenant_id != tenant_id",
            "False",
        ),
    ),
    fault(
        "G35",
        "SQLite finds another tenant's run",
        reword("stores/sqlite/tenants.py", "AND r.tenant_id = ?", "AND ? IS NOT NULL"),
    ),
    fault(
        "G38",
        "a step has no window for its operator",
        swap("machine/attempts.py:after_failure", "retry.operator", "False", nth=1),
    ),
    fault(
        "G39",
        "dependants stay skipped after a retry",
        drop("machine/graphs.py:retry", "_take_back(...)"),
    ),
    fault(
        "G40",
        "the store takes what was decided without the newest record",
        swap("stores/memory/log.py:MemoryLog.append", "after != kept.row.head", "False"),
    ),
    fault(
        "G40",
        "a follower folds records as they come",
        swap(
            "machine/following.py:Follower.learn", "self._ahead[event.run_seq] = event", "self._fold(event)"
        ),
    ),
    fault(
        "G13",
        "a host that starts again repeats what must not be repeated",
        swap("machine/following.py:Follower.restart", "command.step.idempotent", "True"),
    ),
    fault(
        "G41",
        "the time of the machine runs back",
        swap("machine/machine.py:Machine.advance", "event.emitted_at > self.surroundings.now", "True"),
    ),
    fault(
        "G43",
        "a start that is not stored in time fails open",
        before(
            "runtime/recording.py:Recorder._append",
            "raise StoreUnavailable(...) from error",
            "if writes[0].event_type == 'StepStarted': return ()",
        ),
    ),
    fault(
        "G44",
        "ids may have spaces",
        reword("log/ids.py", "[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}", "[A-Za-z0-9][A-Za-z0-9._:@+ -]{0,127}"),
    ),
    fault("G44", "ids have no limit", reword("log/ids.py", "{0,127}", "*")),
    fault(
        "G44",
        "a request for something else gives the earlier run",
        drop("stores/memory/log.py:MemoryLog.create_run", "rules.check_same_request(...)"),
    ),
    fault(
        "G45",
        "a worker records the end of an attempt that was taken over, under the lease of the run",
        swap(
            "runtime/engine_attempt.py:EngineAttempt._record_end",
            "self._lease.held.fence",
            "self._lease._run_fence",
        ),
    ),
    fault(
        "G45",
        "a worker does not renew the lease of its attempt",
        body("runtime/attempt_lease.py:AttemptLease.keep", "return"),
    ),
    fault(
        "G45",
        "a worker takes an attempt away from another one that lives",
        swap("stores/sqlite/attempts.py:start_attempt", "holder.owner != claim.owner", "False"),
    ),
    fault(
        "G45",
        "fences are not checked",
        swap("stores/rules.py:check_fence", "fence is not None and fence.generation != current", "False"),
    ),
    fault(
        "G45",
        "the lease of an attempt is good for everything",
        swap(
            "log/leases.py:may_write",
            "step_id is not None and fence.attempt == attempt_name(step_id, logical_attempt_id)",
            "True",
        ),
    ),
    fault(
        "G45",
        "without a lease everything can be written",
        swap("log/leases.py:may_write", "return False", "return True"),
    ),
    fault(
        "G45",
        "differing content is not reported",
        swap("stores/rules.py:outcome", "_differs(write, earlier)", "False"),
    ),
    fault(
        "G46",
        "leases of SQLite lapse by the wall clock",
        swap("stores/sqlite/moments.py:Moments.__call__", "self._clock.elapsed()", "now.timestamp()"),
    ),
    fault(
        "G47",
        "the slot of a dead holder stays taken",
        swap("stores/memory/state.py:MemoryState._is_live", "held.expires > self._clock.elapsed()", "True"),
    ),
    fault(
        "G45",
        "a run of another engine is driven here",
        drop("engines/local.py:LocalEngine._drive_here", "check_local(run)"),
    ),
    fault(
        "G45",
        "a lease is given again to another owner",
        swap("stores/memory/leases.py:MemoryLeases.claim", "held.owner == owner", "True"),
    ),
    fault(
        "G45",
        "the end of an attempt that a worker holds is recorded under the lease of the run",
        body("stores/rules.py:check_ends", "return"),
    ),
    fault(
        "G45",
        "a lease is taken over from any owner",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim", "held.owner == takes_over", "takes_over is not None"
        ),
    ),
    fault(
        "G47",
        "a run that is taken over needs a free slot",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim",
            "held.owner == takes_over",
            "held.owner == takes_over and not self._full_limit(kept.scopes)",
        ),
    ),
    fault(
        "G47",
        "a lease that never lapses takes no slot",
        swap(
            "stores/memory/state.py:MemoryState._is_live",
            "held.expires > self._clock.elapsed()",
            "_NEVER > held.expires > self._clock.elapsed()",
        ),
    ),
    fault(
        "G47",
        "recovery needs no slot",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "self._has_room(kept)", "True"),
    ),
    fault("G48", "small values move first", swap("runtime/spilling.py:spill", "-sizes[name]", "sizes[name]")),
    fault(
        "G48", "an error moves too", swap("runtime/spilling.py:spill", "name not in NEVER_SPILLED", "True")
    ),
    fault(
        "G48",
        "a store keeps payloads of any size",
        swap("log/events.py:check_payload", "len(payload) > MAX_PAYLOAD_BYTES", "False"),
    ),
    fault(
        "G36",
        "audit records are hashed without the key",
        start("access/audit.py:seal_of", "key = None"),
    ),
    fault(
        "G36",
        "records are not linked",
        swap("access/audit.py:sealed", "previous.seal if previous is not None else NO_SEAL", "NO_SEAL"),
    ),
    fault(
        "G36",
        "the head of a chain is not sealed with the key",
        swap(
            "access/audit.py:_head_seal",
            "seal_of(canonical_json(fields), key)",
            "seal_of(canonical_json(fields), None)",
        ),
    ),
    fault(
        "G36",
        "a chain that was cut is continued without a trace",
        swap("access/audit.py:chain_end", "is_newest and is_sealed", "True"),
    ),
    fault(
        "G36",
        "verification does not compare seals",
        swap("access/audit_verification.py:ChainVerifier._check_seal", "record.seal != expected", "False"),
    ),
    fault(
        "G36",
        "verification does not follow the links",
        swap(
            "access/audit_verification.py:ChainVerifier._check_link", "fields.previous != previous", "False"
        ),
    ),
    fault(
        "G36",
        "verification does not miss records",
        swap("access/audit_verification.py:ChainVerifier._check_order", "record.seq > expected", "False"),
    ),
    fault(
        "G36",
        "verification does not miss records at the end",
        swap("access/audit_verification.py:ChainVerifier._check_head", "head.seq > self._last_seq", "False"),
    ),
    fault(
        "G36",
        "verification accepts records of another tenant",
        swap(
            "access/audit_verification.py:ChainVerifier._check_place",
            "fields.tenant_id != self._tenant_id or record.tenant_id != self._tenant_id",
            "False",
        ),
    ),
    fault(
        "G36",
        "a chain may lose its key",
        swap(
            "access/audit_verification.py:ChainVerifier._check_head_seal",
            "key_id is None and self._keys and self._unkeyed_since is None",
            "False",
        ),
    ),
    fault(
        "G36",
        "SQLite deletes audit records",
        rewrite(
            "stores/sqlite/migrations/0012_audit.sql",
            "raise(ABORT, 'audit records are never deleted')",
            "'audit records are never deleted'",
        ),
    ),
    fault(
        "G36",
        "on PostgreSQL two transactions continue a chain at the same place",
        drop("stores/postgres/audit.py:record", "await connections.lock(connection, 'audit', tenant_id)"),
    ),
    fault(
        "G36",
        "the audit log is read without asking",
        swap("operations/auditing.py:_may_read", "all(...)", "True"),
    ),
    fault(
        "G36",
        "a repeated event is decided again",
        swap(
            "stores/memory/log.py:MemoryLog.append",
            "writes or not (set_wake_ups or drop_wake_ups or audit)",
            "not audit",
        ),
    ),
    fault(
        "G36",
        "a refused append is recorded as decided",
        before(
            "stores/memory/log.py:MemoryLog.append", "rules.check_fence(...)", "self._record_audit(audit)"
        ),
    ),
    fault(
        "G49",
        "the default tenant has another name",
        swap("log/ids.py", "TenantId('default')", "TenantId('main')"),
    ),
    fault(
        "G49",
        "PODIUM_STORE is not read",
        swap("wiring/stores.py:store_url", "os.environ.get('PODIUM_STORE')", "None"),
    ),
    fault(
        "G50",
        "every attempt is shown",
        swap(
            f"{_PROJECT}:_Step._begin",
            "(self._newest(), *self.earlier)[:SHOWN_ATTEMPTS - 1]",
            "(self._newest(), *self.earlier)",
        ),
    ),
    fault(
        "G50",
        "attempts that are not shown are not counted",
        swap(
            "log/fold.py:_Step._begin",
            "self.attempt_count += 1",
            "self.attempt_count = len(self.earlier) + 1",
        ),
    ),
    fault(
        "G51",
        "a completed run is reopened",
        swap(
            "machine/machine.py:_reopened",
            "m.terminal and (m.at_verdict is not None or m.ends_before_start)",
            "m.terminal",
        ),
    ),
    fault(
        "G51",
        "a reopened run keeps its status",
        swap(
            "log/transitions.py",
            "frozenset({RunStatus.FAILED, RunStatus.CANCELLED})",
            "frozenset({RunStatus.CANCELLED})",
        ),
    ),
]
