"""What a node class may be: the rules of its type hold when its module is imported."""

import sys
import time
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from podium.nodes import InvalidNode, NodeCompute, NodeContext, NodeEffect, NodeReducer, operation
from podium.nodes.registry import NodeNotAvailable, NodeRegistry
from podium.ports.clock import Clock
from tests.unit.node_runs.running import LoopClock, Nothing, effect


class Wrong(BaseModel):
    colour: str


@pytest.mark.rule("RO01")
@pytest.mark.parametrize("base", [NodeReducer, NodeCompute])
def test_a_pure_node_that_is_async_cannot_be_imported(base: Any) -> None:
    with pytest.raises(InvalidNode, match="is async"):

        class Async(base):  # type: ignore[misc]
            @operation
            async def reduce(self, data: Nothing, context: NodeContext) -> Nothing:
                return data


@pytest.mark.rule("RO01")
def test_a_reducer_with_an_async_helper_cannot_be_imported() -> None:
    with pytest.raises(InvalidNode, match="'_read' is async"):

        class Helped(NodeReducer):
            async def _read(self) -> None: ...


@pytest.mark.rule("RO01")
def test_a_reducer_that_takes_a_port_cannot_be_imported() -> None:
    with pytest.raises(InvalidNode, match="its constructor takes clock"):

        class Built(NodeReducer):
            def __init__(self, clock: Clock) -> None:
                self._clock = clock


@pytest.mark.rule("RO01")
def test_a_reducer_that_declares_a_port_cannot_be_imported() -> None:
    with pytest.raises(InvalidNode, match="'clock' names a port"):

        class Declared(NodeReducer):
            clock: Clock


@pytest.mark.rule("RO01")
def test_a_reducer_that_names_a_port_in_its_code_cannot_be_imported() -> None:
    with pytest.raises(InvalidNode, match="uses the port Clock"):

        class Naming(NodeReducer):
            @operation
            def reduce(self, data: Nothing, context: NodeContext) -> Nothing:
                assert not isinstance(data, Clock)  # type: ignore[misc]
                return data


@pytest.mark.rule("RO01")
def test_a_reducer_that_asks_the_world_cannot_be_imported() -> None:
    with pytest.raises(InvalidNode, match="uses time of the module 'time'"):

        class Timed(NodeReducer):
            @operation
            def reduce(self, data: Nothing, context: NodeContext) -> Nothing:
                time.sleep(0)
                return data

    with pytest.raises(InvalidNode, match=r"uses open\(\)"):

        class Reading(NodeCompute):
            def _lines(self) -> list[str]:
                return [line for line in open("x")]  # noqa: C416, PTH123


class Door:
    open = True


class ClockMixin:
    def stamp(self) -> datetime:
        return datetime.now(UTC)


@pytest.mark.rule("RO01")
def test_a_reducer_that_reads_a_clock_or_draws_an_id_cannot_be_imported() -> None:
    with pytest.raises(InvalidNode, match="uses the clock of datetime"):

        class Clocked(NodeReducer):
            def _time(self) -> datetime:
                return datetime.now(UTC)

    with pytest.raises(InvalidNode, match="'stamp' uses the clock of datetime"):

        class Mixed(ClockMixin, NodeReducer):
            pass

    with pytest.raises(InvalidNode, match="uses random ids of uuid4"):

        class Drawing(NodeCompute):
            def _id(self) -> UUID:
                return uuid4()


@pytest.mark.rule("RO01")
def test_an_annotation_that_is_a_text_is_read_too() -> None:
    with pytest.raises(InvalidNode, match="'clock' names a port"):

        class Quoted(NodeReducer):
            clock: "Clock | None" = None


def test_what_only_looks_like_the_world_is_accepted() -> None:
    class Fine(NodeReducer):
        name = "fine"

        @operation
        def reduce(self, data: Nothing, context: NodeContext) -> Nothing:
            assert Door().open
            assert context.now > datetime.min.replace(tzinfo=UTC)
            assert UUID(int=0) != UUID(int=1)
            return data

    assert list(Fine.operations) == ["reduce"]


@pytest.mark.rule("RO01")
def test_an_effect_is_async_and_may_have_ports() -> None:
    with pytest.raises(InvalidNode, match="is not async"):

        class Plain(NodeEffect):
            @operation
            def act(self, data: Nothing, context: NodeContext) -> Nothing:
                return data

    class Clocked(NodeEffect):
        name = "clocked"

        def __init__(self, clock: Clock) -> None:
            self.clock = clock

        @operation
        async def act(self, data: Nothing, context: NodeContext) -> Nothing:
            return data

    clock = LoopClock()
    assert NodeRegistry([Clocked], ports=lambda: {Clock: clock}).instance("effect", "clocked").clock is clock
    with pytest.raises(NodeNotAvailable, match="needs clock, which this process does not provide"):
        NodeRegistry([Clocked]).instance("effect", "clocked")


@pytest.mark.rule("RO01")
def test_an_operation_names_its_models() -> None:
    with pytest.raises(InvalidNode, match="must name a pydantic model"):

        class Untyped(NodeCompute):
            @operation
            def act(self, data: Nothing, context: NodeContext) -> dict[str, int]:
                return {}

    with pytest.raises(InvalidNode, match="asks for colour; its input model may have the fields config"):

        class Asking(NodeCompute):
            @operation
            def act(self, data: Wrong, context: NodeContext) -> Nothing:
                return Nothing()

    with pytest.raises(InvalidNode, match="must take two arguments"):

        class Lone(NodeCompute):
            @operation
            def act(self, data: Nothing) -> Nothing:
                return Nothing()


def test_nodes_are_found_by_name_and_type() -> None:
    async def nothing(_context: NodeContext) -> None: ...

    sent = effect("send", nothing)
    nodes = NodeRegistry([sent])
    assert nodes.find("effect", "send") is sent
    assert nodes.find("compute", "send") is None
    assert nodes.types_of("send") == ("effect",)
    assert nodes.instance("effect", "send") is nodes.instance("effect", "send")
    with pytest.raises(NodeNotAvailable, match="the compute node 'send' is not installed here"):
        nodes.instance("compute", "send")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "raise ValueError('postgresql://app:s3cret@10.1.2.3')",
            "cannot be loaded: ValueError at broken_node.py:1;",
        ),
        ("import no_such_library", "No module named 'no_such_library'"),
        ("raise SystemExit('s3cret')", "cannot be loaded: SystemExit at broken_node.py:1"),
        ("Thing = 7", "is not a node"),
        ("from podium.nodes.built_in import ReceiveEvent as Thing", "has the name 'receive_event'"),
        ("", "cannot be loaded: AttributeError"),
    ],
)
def test_a_package_that_cannot_be_loaded_says_why_without_its_texts(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_node.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_node", raising=False)
    entry = EntryPoint("thing", "broken_node:Thing", "podium.nodes")
    nodes = NodeRegistry(installed=lambda: [entry])
    assert "thing" in nodes.names()
    for _ in range(2):
        with pytest.raises(NodeNotAvailable) as raised:
            nodes.find("effect", "thing")
        assert expected in str(raised.value)
        assert "s3cret" not in str(raised.value)
    sys.modules.pop("broken_node", None)


def test_the_rules_are_checked_when_a_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_reducer.py").write_text(
        "from podium.nodes import NodeReducer, operation\n"
        "class Broken(NodeReducer):\n"
        "    async def reduce(self): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidNode):
        __import__("broken_reducer")
