"""Whether the sections of a contract fit its graph: every problem at its position.

A section has to have an effect: one that no node of the graph reads is an error, and so is an event, an
intent or a dependency that the graph does not know. If part of the graph or of the sections could not be read,
nothing is called unknown that it may have; what the rest needs is checked in any case.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from podium.language.codes import Code
from podium.language.diagnostics import did_you_mean
from podium.language.tree import NodePath
from podium.nodes.base import Node, Operation, port_types
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.planned_steps import PlannedStep
from podium.nodes.publishing import can_publish
from podium.nodes.registry import NodeClass, NodeRegistry
from podium.nodes.sections import READ_BY_NODES, ConsumedEvent, IntentRoute, PublishedEvent, Sections
from podium.text import quoted

_PLACEHOLDERS: Final = ("{env}", "{namespace}")
_BRACES: Final = re.compile(r"\{[^{}]*\}?|\}")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]*")
_CONTRACT_MAJOR: Final = 1
_RUN: Final = "run"


class SectionChecks:
    def __init__(
        self,
        sections: Sections,
        steps: Sequence[PlannedStep],
        nodes: NodeRegistry,
        problems: ContractProblems,
        *,
        graph_is_known: bool = True,
        unreadable: Collection[str] = (),
    ) -> None:
        """`graph_is_known`: `steps` are all of the graph. `unreadable`: sections that were reported before."""
        self._graph_is_known = graph_is_known
        self._unreadable = unreadable
        self._sections = sections
        self._steps = {step.step_id: step for step in steps if step.enabled}
        found = {name: nodes.find(step.type, step.node) for name, step in self._steps.items()}
        self._classes = {name: cls for name, cls in found.items() if cls is not None}
        self._problems = problems

    def check(self) -> None:
        self._check_alone()
        self._check_needed()
        if self._graph_is_known:
            self._check_against_graph()

    def _check_alone(self) -> None:
        """What needs no graph."""
        consumed, published = self._sections.consumed_events or [], self._sections.published_events or []
        self._check_contract_version()
        self._check_topics("consumed_events", consumed)
        self._check_topics("published_events", published)
        self._check_circles(published)
        self._check_twice_routed([one.intent for one in self._routes])
        self._check_twice("dependencies", [one.name for one in self._sections.dependencies or []], "name")
        if "consumed_events" not in self._unreadable:
            self._check_time()

    def _check_needed(self) -> None:
        """What the known nodes of the graph need; more nodes would not need less."""
        for section, check in (
            ("consumed_events", self._check_all_consumed),
            ("published_events", self._check_all_published),
            ("intent_consumption", self._check_all_routed),
        ):
            if section not in self._unreadable:
                check()

    def _check_against_graph(self) -> None:
        self._check_read()
        self._check_node_version()
        for section, check in (
            ("consumed_events", self._check_consumed),
            ("published_events", self._check_published),
            ("intent_consumption", self._check_routes),
        ):
            if section not in self._unreadable:
                check()
        self._check_reader()
        self._check_dependencies()

    def _check_read(self) -> None:
        read = {section for cls in self._classes.values() for section in _facts(cls, "sections")}
        if any(can_publish(one.output_model) for one in self._operations()):
            read.add("published_events")
        for name in READ_BY_NODES:
            if getattr(self._sections, name) is not None and name not in read:
                message = f"'{name}' has no effect: no node of the graph reads it."
                self._problems.report(
                    Code.UNKNOWN_KEY, (name,), message, "Remove it, or add a node that does."
                )

    def _check_contract_version(self) -> None:
        contract = self._sections.contract_version
        if contract is not None and contract.major != _CONTRACT_MAJOR:
            message = f"'contract_version' is {contract}, which this version of Podium does not read."
            self._problems.report(
                Code.UNKNOWN_VALUE, ("contract_version",), message, f"Use {_CONTRACT_MAJOR}.x.y."
            )

    def _check_node_version(self) -> None:
        node = self._sections.node_version
        if node is None:
            return
        other = {cls.name: cls.version for cls in self._classes.values() if cls.version != str(node)}
        if other:
            name, version = next(iter(other.items()))
            message = f"'node_version' is {node}, but node {quoted(name)} is installed here as {version}."
            self._problems.report(Code.UNKNOWN_VALUE, ("node_version",), message, "Install that version.")

    # --- events -----------------------------------------------------------------------------------

    def _check_topics(self, section: str, events: Sequence[ConsumedEvent | PublishedEvent]) -> None:
        for index, event in enumerate(events):
            self._check_topic((section, index, "topic"), event.topic)
        self._check_twice(section, [one.event_type for one in events], "event_type")
        self._check_twice(section, [one.topic for one in events], "topic")

    def _check_consumed(self) -> None:
        known, events = self._all("consumes"), self._sections.consumed_events or []
        for index, event in enumerate(events):
            self._check_event("consumed_events", index, event, known, "consumes")
            self._check_handling(index, event)

    def _check_published(self) -> None:
        known, events = self._all("publishes"), self._sections.published_events or []
        for index, event in enumerate(events):
            self._check_event("published_events", index, event, known, "publishes")

    def _check_all_consumed(self) -> None:
        self._check_missing("consumed_events", self._sections.consumed_events or [], "consumes")

    def _check_all_published(self) -> None:
        self._check_missing("published_events", self._sections.published_events or [], "publishes")

    def _check_missing(
        self, section: str, events: Sequence[ConsumedEvent | PublishedEvent], verb: str
    ) -> None:
        missing = sorted(self._all(verb) - {one.event_type for one in events})
        if missing:
            message = f"no topic is declared for {', '.join(missing)}, which the graph {verb}."
            self._problems.report(
                Code.MISSING_KEY, (section,), message, "Add 'topic: ...' and 'event_type: ...'."
            )

    def _check_handling(self, index: int, event: ConsumedEvent) -> None:
        """How the nodes of the graph can handle it, and whether each key has an effect."""
        place: NodePath = ("consumed_events", index)
        able = {
            kind
            for cls in self._classes.values()
            for name, kind in _facts(cls, "handling").items()
            if name == event.event_type
        } or {_RUN}
        if event.event_type in self._all("consumes") and event.handling not in able:
            key = "handling" if "handling" in event.model_fields_set else "event_type"
            message = f"{quoted(event.event_type)} cannot be handled as {quoted(event.handling)}."
            self._problems.report(
                Code.UNKNOWN_VALUE, (*place, key), message, f"Use 'handling: {', '.join(sorted(able))}'."
            )
        elif event.handling == _RUN and "max_batch" in event.model_fields_set:
            message = "'max_batch' has no effect: each event makes a run of its own."
            self._problems.report(Code.UNKNOWN_KEY, (*place, "max_batch"), message, "Remove it.")

    def _check_circles(self, events: Sequence[PublishedEvent]) -> None:
        consumed = {one.topic for one in self._sections.consumed_events or ()}
        for index, event in enumerate(events):
            if event.topic in consumed:
                message = f"{quoted(event.topic)} is consumed too: the workflow would start itself."
                self._problems.report(
                    Code.CONFLICTING_KEYS, ("published_events", index, "topic"), message, "Use another topic."
                )

    def _check_event(
        self,
        section: str,
        index: int,
        event: ConsumedEvent | PublishedEvent,
        known: frozenset[str],
        verb: str,
    ) -> None:
        if known and event.event_type not in known:
            message = f"no node of the graph {verb} {quoted(event.event_type)}."
            self._unknown((section, index, "event_type"), event.event_type, known, message)

    def _check_topic(self, path: NodePath, topic: str) -> None:
        wrong = [one for one in _BRACES.findall(topic) if one not in _PLACEHOLDERS]
        if wrong:
            message = f"the topic has the placeholder {quoted(wrong[0])}, which is unknown."
            self._problems.report(Code.UNKNOWN_VALUE, path, message, f"Use {' and '.join(_PLACEHOLDERS)}.")
        elif _TOPIC.fullmatch(_BRACES.sub("x", topic)) is None:
            message = f"the topic is {quoted(topic)}, which no bus accepts."
            self._problems.report(
                Code.INVALID_FORMAT, path, message, "Use letters, digits, '.', '_' and '-'."
            )

    def _check_twice(self, section: str, values: Sequence[str], key: str) -> None:
        for index, value in enumerate(values):
            if value in values[:index]:
                message = f"{quoted(value)} appears twice in '{section}'."
                self._problems.report(
                    Code.CONFLICTING_KEYS, (section, index, key), message, "Each may have one entry."
                )

    # --- intents ----------------------------------------------------------------------------------

    @property
    def _routes(self) -> Sequence[IntentRoute]:
        section = self._sections.intent_consumption
        return section.routes if section is not None else ()

    def _check_routes(self) -> None:
        emitted = self._all("emits")
        for index, route in enumerate(self._routes):
            place: NodePath = ("intent_consumption", "routes", index)
            if route.intent not in emitted:
                message = f"no node of the graph emits the intent {quoted(route.intent)}."
                self._unknown((*place, "intent"), route.intent, emitted, message)
            elif (step := self._steps.get(route.step)) is None:
                message = (
                    f"the intent {quoted(route.intent)} goes to {quoted(route.step)}, which is not a step."
                )
                self._unknown((*place, "step"), route.step, self._steps, message)
            elif route.intent not in _facts(self._classes[route.step], "executes").get(step.operation, ()):
                message = f"step {quoted(route.step)} does not carry out the intent {quoted(route.intent)}."
                able = [name for name in self._steps if route.intent in self._executed_by(name)]
                self._problems.report(
                    Code.UNKNOWN_VALUE,
                    (*place, "step"),
                    message,
                    f"Steps that do: {', '.join(able) or 'none'}.",
                )

    def _check_all_routed(self) -> None:
        missing = sorted(self._all("emits") - {route.intent for route in self._routes})
        if missing:
            message = f"these intents have no route: {', '.join(missing)}."
            self._problems.report(
                Code.MISSING_KEY,
                ("intent_consumption", "routes"),
                message,
                "Add 'intent: ...' and 'step: ...'.",
            )

    def _check_twice_routed(self, intents: Sequence[str]) -> None:
        for index, intent in enumerate(intents):
            if intent in intents[:index]:
                path: NodePath = ("intent_consumption", "routes", index, "intent")
                message = f"the intent {quoted(intent)} has two routes."
                self._problems.report(Code.CONFLICTING_KEYS, path, message, "Keep one of them.")

    def _executed_by(self, step: str) -> Iterable[str]:
        executed: Iterable[str] = _facts(self._classes[step], "executes").get(self._steps[step].operation, ())
        return executed

    # --- time, projection, dependencies -----------------------------------------------------------

    def _check_time(self) -> None:
        time = self._sections.time_injection
        consumed = {one.event_type for one in self._sections.consumed_events or ()}
        if time is not None and time.source_event not in consumed:
            message = (
                f"the time comes with {quoted(time.source_event)}, which is not among 'consumed_events'."
            )
            self._unknown(("time_injection", "source_event"), time.source_event, consumed, message)

    def _check_reader(self) -> None:
        reader = self._sections.projection_reader
        if reader is None:
            return
        if reader.step not in self._classes:
            message = f"the projection is read by {quoted(reader.step)}, which is not a step."
            self._unknown(("projection_reader", "step"), reader.step, self._steps, message)
        elif reader.protocol not in _ports(self._classes[reader.step]):
            ports = _ports(self._classes[reader.step])
            message = f"step {quoted(reader.step)} has no port {quoted(reader.protocol)}."
            self._unknown(("projection_reader", "protocol"), reader.protocol, ports, message)

    def _check_dependencies(self) -> None:
        classes = self._classes.values()
        known = {
            "node": {cls.name for cls in classes},
            "protocol": {
                name
                for cls in classes
                for name in (*_ports(cls), *(one.__name__ for one in _facts(cls, "protocols")))
            },
        }
        for index, one in enumerate(self._sections.dependencies or []):
            if one.target not in known[one.type]:
                message = f"no {one.type} {quoted(one.target)} is used by the graph."
                self._unknown(("dependencies", index, "target"), one.target, known[one.type], message)

    def _operations(self) -> Iterable[Operation]:
        """The operations that the steps execute."""
        for name, cls in self._classes.items():
            found = cls.operations.get(self._steps[name].operation)
            if found is not None:
                yield found

    # --- helpers ----------------------------------------------------------------------------------

    def _all(self, fact: str) -> frozenset[str]:
        return frozenset(one for cls in self._classes.values() for one in _facts(cls, fact))

    def _unknown(self, path: NodePath, value: str, known: Iterable[str], message: str) -> None:
        names = sorted(known)
        listed = f"Known are: {', '.join(names)}." if names else ""
        hint = " ".join(filter(None, (did_you_mean(value, names), listed)))
        self._problems.report(Code.UNKNOWN_VALUE, path, message, hint)


def _facts(cls: NodeClass, fact: str) -> Any:
    """A fact that a class declares; an orchestrator declares none."""
    return getattr(cls, fact, getattr(Node, fact))


def _ports(cls: NodeClass) -> tuple[str, ...]:
    if not issubclass(cls, Node):
        return ()
    return tuple(getattr(kind, "__name__", "") for kind in port_types(cls).values())
