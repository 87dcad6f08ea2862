"""Violations of docs/conformance/registration-orchestrator.md: the registration of nodes."""

from typing import Final

from tests.planted.edits import body, drop, rewrite, start, swap
from tests.planted.faults import Fault, fault

_HERE = "nodes/registration"
_FSM = f"{_HERE}/fsm.py"
_REDUCER = f"{_HERE}/reducer.py:RegistrationReducer"
_EFFECTS = f"{_HERE}/effects.py"
_ORDER = f"{_HERE}/ordering.py"
_INTAKE = f"{_HERE}/intake.py"
_CONTRACT = f"{_HERE}/contract.yaml"
_CHECKS = "nodes/section_checks.py:SectionChecks"
_FAILED_RUNS = "operations/registration/continuing.py:FailedRuns"

FAULTS: Final[list[Fault]] = [
    # --- a run ------------------------------------------------------------------------------------
    fault(
        "RG01",
        "an acknowledged node does not become active",
        swap(f"{_REDUCER}._acked", "entered(...)", "(State.ACK_RECEIVED,)"),
    ),
    fault(
        "RG01",
        "an expired node stays in the service catalog",
        swap(f"{_HERE}/wanted.py:_consul", "'deregister' if is_over else 'register'", "'register'"),
    ),
    fault(
        "RG02",
        "a side that failed counts as applied",
        swap(f"{_HERE}/reducer.py:settle", "applied", "BOTH", nth=1),
    ),
    fault(
        "RG02",
        "a side that failed is not tried again",
        drop(f"{_REDUCER}._apply", "retry_at=now + self.time.retry"),
    ),
    fault(
        "RG02",
        "a delivery that comes again repairs nothing",
        swap(f"{_REDUCER}._again", "is_same_delivery(row, node)", "False"),
    ),
    fault(
        "RG03",
        "a transition that was not stored is published",
        swap(f"{_EFFECTS}:PublishOutcome._lost", "{'entered': (), ...: ...}", "{}"),
    ),
    fault(
        "RG03",
        "both sides of a lost run count as applied",
        drop(f"{_EFFECTS}:PublishOutcome._lost", "await self._table.unsettle(...)"),
    ),
    fault(
        "RG03",
        "a write whose answer was lost is a conflict",
        drop(f"{_EFFECTS}:PublishOutcome._store", "may_follow=..."),
    ),
    fault(
        "RG04",
        "endpoints with credentials are accepted",
        swap(
            f"{_HERE}/models/model_orchestrator_input.py:NodeIntrospectionEvent._without_credentials",
            "'@' in ...",
            "False",
        ),
    ),
    fault(
        "RG04",
        "values of messages are converted",
        drop(f"{_HERE}/decoding.py:_validated", "strict=True"),
    ),
    fault(
        "RG04",
        "two correlation ids are accepted",
        swap(
            f"{_EFFECTS}:ReceiveIntrospection.receive",
            "data.event.correlation_id not in (None, data.event.body.correlation_id)",
            "False",
        ),
    ),
    fault(
        "RG05",
        "events have no version",
        drop(f"{_HERE}/events_out.py:publications", "version=version"),
    ),
    fault(
        "RG05",
        "events have no revision",
        swap(f"{_HERE}/events_out.py:publications", "row.revision if row is not None else None", "None"),
    ),
    fault(
        "RG05",
        "events have the pattern of their topic",
        swap("nodes/publishing.py:filled_topic", "pattern.replace(...).replace(...)", "pattern"),
    ),
    fault(
        "RG06",
        "the result is not published",
        drop(f"{_HERE}/events_out.py:publications", "bodies.append(...)"),
    ),
    fault(
        "RG06",
        "a state is entered without its event",
        swap(
            f"{_REDUCER}._overdue",
            "self._apply(state, ended, BOTH, event, now, led_to)",
            "self._apply(state, ended, BOTH, event, now)",
        ),
    ),
    # --- time -------------------------------------------------------------------------------------
    fault(
        "RG07",
        "the clock of the process decides about deadlines",
        swap(
            f"{_HERE}/deciding.py:EvaluateTimeout.evaluate",
            "getattr(...) if is_tick else context.now",
            "context.now",
        ),
    ),
    fault(
        "RG07",
        "the clock of a node decides about its liveness",
        swap(f"{_INTAKE}:renewals", "now + time.liveness", "one.timestamp + time.liveness"),
    ),
    fault(
        "RG07",
        "a deadline passes one moment late",
        swap(f"{_HERE}/timeouts.py:passed_deadlines", "deadline <= now", "deadline < now"),
    ),
    fault("R03", "time goes back", swap(f"{_INTAKE}:next_time", "tick > known", "True")),
    fault("R03", "a tick far ahead is accepted", drop(f"{_INTAKE}:next_time", "if ...: ...")),
    fault(
        "R06",
        "each tick makes another run for the same deadline",
        swap(f"{_INTAKE}:run_for", "body.deadline.isoformat()", "body.now.isoformat()"),
    ),
    # --- the table --------------------------------------------------------------------------------
    fault(
        "RG08",
        "a rejected node cannot register again",
        rewrite(_FSM, "(State.REJECTED, Trigger.INTROSPECTED)", "(State.REJECTED, Trigger.UPDATED)"),
    ),
    fault(
        "RG08",
        "an acknowledgement leads straight to ACTIVE",
        rewrite(
            _FSM,
            "(State.AWAITING_ACK, Trigger.ACKED): State.ACK_RECEIVED",
            "(State.AWAITING_ACK, Trigger.ACKED): State.ACTIVE",
        ),
    ),
    fault(
        "RG08",
        "an active node that is refused is rejected",
        rewrite(
            _FSM,
            "    (State.ACTIVE, Trigger.HEARTBEAT): State.ACTIVE,",
            "    (State.ACTIVE, Trigger.HEARTBEAT): State.ACTIVE,\n    (State.ACTIVE, Trigger.REFUSED): State.REJECTED,",
        ),
    ),
    fault(
        "RG08",
        "the diagram lacks an arrow",
        rewrite(f"{_HERE}/README.md", "    ACK_TIMED_OUT --> PENDING_REGISTRATION: retried\n", ""),
    ),
    fault(
        "RG08",
        "the table is not total",
        rewrite(
            _FSM,
            "for state in State for trigger in Trigger",
            "for state in State for trigger in list(Trigger)[:-1]",
        ),
    ),
    # --- the reducer ------------------------------------------------------------------------------
    fault(
        "R15",
        "a deadline outlives its state",
        drop(f"{_REDUCER}._overdue", "liveness_deadline=None"),
    ),
    fault(
        "RG09",
        "a state that is passed through is stored",
        swap(f"{_HERE}/reducer.py:settle", "state=led_to[-1]", "state=led_to[0]"),
    ),
    fault(
        "RG09",
        "the reducer remembers what it was called with",
        swap(
            f"{_REDUCER}.reduce",
            "state.model_copy(update={'entered': (), 'code': None})",
            "state.model_copy(update={'entered': (), 'code': _SEEN.append(event) or (RATE_LIMITED if len(_SEEN) % 7 == 0 else None)})",
        ),
        rewrite(
            f"{_HERE}/reducer.py", "\nNODE_UNKNOWN: Final", "\n_SEEN: list[object] = []\nNODE_UNKNOWN: Final"
        ),
    ),
    fault(
        "RG10",
        "an event that comes again is applied again",
        swap(f"{_REDUCER}._introspected", "not is_newer(row, node)", "False"),
    ),
    fault(
        "RG10",
        "an acknowledgement of an earlier registration counts",
        swap(f"{_ORDER}:is_older_ack", "timestamp < known.node.timestamp", "False"),
    ),
    fault(
        "RG11",
        "an older epoch replaces a newer one",
        swap(f"{_ORDER}:_key", "epoch_of(epoch)", "0"),
    ),
    fault(
        "RG11",
        "an older timestamp replaces a newer one",
        swap(
            f"{_ORDER}:is_newer",
            "_key(...) > _key(...)",
            "epoch_of(node.epoch) >= epoch_of(known.node.epoch)",
        ),
    ),
    fault(
        "RG11",
        "the time of equal content is forgotten",
        swap(f"{_REDUCER}._introspected", "_changed(row, seen_at=node.timestamp)", "row"),
    ),
    fault(
        "RG12",
        "threads share what one of them decides",
        swap(
            f"{_REDUCER}._apply",
            "after = _state(state, row, passed, code)",
            "_SHARED[0] = row\nsleep(0)\nafter = _state(state, _SHARED[0], passed, code)",
        ),
        rewrite(
            f"{_HERE}/reducer.py",
            "\nNODE_UNKNOWN: Final",
            "\nfrom time import sleep\n_SHARED: list[Projection] = [None]  # type: ignore\nNODE_UNKNOWN: Final",
        ),
    ),
    fault("R09", "any endpoint is accepted", body(f"{_HERE}/refusals.py:_is_endpoint", "return True")),
    fault(
        "R09",
        "a refused node is registered",
        swap(f"{_REDUCER}._start", "refusal(node, self.rules)", "None"),
    ),
    fault(
        "R02",
        "a request for an unknown node succeeds",
        swap(f"{_REDUCER}._requested", "NODE_UNKNOWN", "None"),
    ),
    fault(
        "R02",
        "a request for a known node does nothing",
        swap(
            f"{_REDUCER}._requested", "return self._apply(...)", "return self._repair(state, row, event, now)"
        ),
    ),
    fault(
        "R10",
        "a terminal node registers again with the same epoch",
        swap(
            f"{_ORDER}:may_restart",
            "epoch_of(node.epoch) > ...",
            "epoch_of(node.epoch) >= epoch_of(known.node.epoch)",
        ),
    ),
    fault(
        "R10",
        "a terminal node without an epoch cannot register again",
        swap(f"{_ORDER}:may_restart", "not has_epoch and ...", "False"),
    ),
    fault(
        "R15",
        "an expired node is not removed again after a failure",
        swap(
            f"{_REDUCER}._repair",
            "missing_sides(row)",
            "missing_sides(row) if row.state != 'LIVENESS_EXPIRED' else ()",
        ),
    ),
    fault(
        "RG13",
        "the rate limit has no effect",
        swap(f"{_REDUCER}._update", "now < earliest", "False"),
    ),
    fault(
        "RG13",
        "heartbeats have batches of any size",
        swap(f"{_INTAKE}:renewals", "_parts(listed, max_batch)", "_parts(listed, 10_000)"),
    ),
    # --- the contract -----------------------------------------------------------------------------
    fault(
        "RG14",
        "the branches do not run in parallel",
        rewrite(_CONTRACT, "max_parallel_branches: 2", "max_parallel_branches: 1"),
    ),
    fault(
        "RG14",
        "a failed effect ends the run",
        rewrite(
            _CONTRACT,
            "          operation: execute_consul\n          depends_on: [compute_intents]\n          allow_failure: true",
            "          operation: execute_consul\n          depends_on: [compute_intents]\n          allow_failure: false",
        ),
    ),
    fault(
        "RG15",
        "the orchestrator has a method",
        rewrite(
            f"{_HERE}/node.py",
            "        super().__init__(container)\n",
            "        super().__init__(container)\n\n    def retry(self) -> None:\n        return None\n",
        ),
    ),
    fault("RG16", "an intent may have no route", drop(f"{_CHECKS}._check_all_routed", "if missing: ...")),
    fault(
        "RG16",
        "any placeholder is accepted",
        swap(f"{_CHECKS}._check_topic", "one not in _PLACEHOLDERS", "False"),
    ),
    fault(
        "RG16",
        "a section without effect is accepted",
        drop(f"{_CHECKS}._check_against_graph", "self._check_read()"),
    ),
    fault(
        "RG16",
        "two events share a topic",
        drop(f"{_CHECKS}._check_topics", "self._check_twice(..., [one.topic for one in events], ...)"),
    ),
    fault(
        "RG16",
        "an unknown event type is accepted",
        drop(f"{_CHECKS}._check_event", "if known and ...: ..."),
    ),
    fault(
        "RG16",
        "topics that are read are not looked at",
        drop(f"{_CHECKS}._check_alone", "self._check_topics('consumed_events', consumed)"),
    ),
    fault(
        "RG16",
        "sections are compared with a part of the graph",
        swap(
            "nodes/compiling.py:_Compiler._check_sections",
            "len(steps) == number_of_steps(self._root)",
            "True",
        ),
    ),
    fault(
        "RG16",
        "a section that could not be read is reported again",
        swap(
            "nodes/compiling.py:_Compiler._check_sections",
            "written - sections.model_fields_set",
            "set()",
        ),
    ),
    fault(
        "RG16",
        "an unknown operation hides what the rest of the graph needs",
        swap(f"{_CHECKS}.check", "self._check_needed()", "self._graph_is_known and self._check_needed()"),
    ),
    fault(
        "RG16",
        "an event of the graph may have no topic",
        drop(f"{_CHECKS}._check_missing", "if missing: ..."),
    ),
    fault(
        "RG16",
        "events are handled in any way",
        swap(f"{_CHECKS}._check_handling", "event.handling not in able", "False"),
    ),
    fault(
        "RG16",
        "a size of batches without effect is accepted",
        swap(f"{_CHECKS}._check_handling", "'max_batch' in event.model_fields_set", "False"),
    ),
    fault(
        "RG16",
        "a workflow may start itself",
        drop(f"{_CHECKS}._check_circles", "if event.topic in consumed: ..."),
    ),
    # --- the service ------------------------------------------------------------------------------
    fault(
        "R03",
        "an empty topic proves that nodes are silent after the bus was away",
        swap("operations/registration/ticks.py:HeartbeatsFirst._is_over", "not self._bus_was_away", "True"),
    ),
    fault(
        "R03",
        "a slow tick is taken for an outage",
        swap("operations/registration/ticks.py:Ticks.__init__", "max(MAX_GAP, ...)", "MAX_GAP"),
    ),
    fault(
        "R03",
        "a clock of the process that lags shortens the life of nodes",
        start("operations/registration/heartbeats.py:Heartbeats._now", "return self._clock.now()"),
    ),
    fault(
        "R03",
        "a sender chooses the time that its tick is compared with",
        swap("operations/registration/starting.py:received_at", "message.is_timed_by_bus", "True"),
    ),
    fault(
        "RG17",
        "the memory of another process is shown as empty",
        swap(
            "operations/registration/status.py:registration_status",
            "dict(...) if summary is not None else None",
            "{}",
        ),
    ),
    fault(
        "RG17",
        "an old status is shown as a new one",
        start("operations/registration/status.py:ProcessStatus.is_stale", "return False"),
    ),
    fault(
        "RG04",
        "any version of an event is accepted",
        swap(f"{_HERE}/decoding.py:decode", "_VERSION.fullmatch(version) is None", "False"),
    ),
    fault(
        "RG18",
        "a service that is missing in Consul is only reported",
        drop("operations/registration/reconciling.py:_repair", "await services.register(expected)"),
    ),
    fault(
        "RG18",
        "a row that differs stays as it is",
        swap("operations/registration/reconciling.py:_repair", "await table.unsettle(...)", "pass"),
    ),
    fault(
        "RG18",
        "a node that a run changes is repaired to what it was",
        swap(
            "operations/registration/reconciling.py:_repair_confirmed",
            "_revision(...) == _revision(row)",
            "True",
        ),
    ),
    fault(
        "RG18",
        "a node that a run has half changed is repaired",
        swap(
            "operations/registration/reconciling.py:_repair_confirmed",
            "not drifts or await has_run(node_id)",
            "not drifts",
        ),
    ),
    fault(
        "RG18",
        "drift raises no alert",
        swap("operations/registration/serving.py:RegistrationService._reconcile", "report.total", "False"),
    ),
    fault(
        "RG19",
        "a message is committed before its run is durable",
        swap(
            "operations/registration/consuming.py:TopicConsumer._take",
            "await self._handled(messages)",
            "(await self._commit(messages) or await self._handled(messages))",
        ),
    ),
    fault(
        "RG20",
        "a run is given up although a service is away",
        swap(f"{_FAILED_RUNS}._continue", "code not in _AWAY and tries >= MAX_TRIES", "tries >= MAX_TRIES"),
    ),
    fault(
        "RG20",
        "the step that ended a run has no code",
        swap(f"{_FAILED_RUNS}._code", "code == _BY_STEP", "False"),
    ),
    fault(
        "RG20",
        "a run that is left raises an alert every minute",
        drop(f"{_FAILED_RUNS}._leave", "self._left.add(...)"),
    ),
    fault(
        "R04",
        "every heartbeat is a statement",
        swap("nodes/registration/intake.py:renewals", "_parts(listed, max_batch)", "_parts(listed, 1)"),
    ),
    fault(
        "R04",
        "nodes that stay due keep others from their turn",
        swap("operations/registration/ticks.py:Ticks._due", "due[-1] if ... else None", "None"),
    ),
    fault(
        "R05",
        "topics without messages keep the slots",
        swap(
            "operations/registration/slots.py:Slots.reserve",
            "async with self._turns: ...",
            "return await self._reserve()",
        ),
    ),
    fault(
        "R05",
        "runs that wait for their turn take no slot",
        swap(
            "operations/registration/pool_runs.py:PoolRuns.free",
            "self._host.free - len(self._waiting)",
            "self._host.slots",
        ),
    ),
    fault(
        "R16",
        "names outside the grammar of ids are accepted",
        drop("operations/registration/place.py:Place.check", "check_id('environment_id', self.env)"),
    ),
    fault(
        "R01",
        "heartbeats come on the topic of introspections",
        rewrite(_CONTRACT, "onex.evt.node-heartbeat.v1", "onex.evt.node-introspection.v1"),
    ),
    fault(
        "R12",
        "the state of the reducer can be changed",
        rewrite(f"{_HERE}/models/model_reducer_state.py", "frozen=True, ", ""),
    ),
    fault(
        "R13",
        "the package of the models has the flat input",
        rewrite(
            f"{_HERE}/models/__init__.py",
            "from podium.nodes.registration.models.model_orchestrator_input import",
            "from podium.nodes.envelopes import",
        ),
    ),
    fault(
        "R14",
        "a protocol is missing in the file of the protocols",
        rewrite(f"{_HERE}/protocols.py", "class ProtocolEffect(", "class ProtocolOfEffects("),
    ),
]
