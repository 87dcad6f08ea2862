"""A step that a node carries out: what it is given, the action it is, its boundary, what a failure says."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from podium.log.ids import RunId
from podium.nodes import (
    EffectExecutionError,
    ModelStepResult,
    NodeCompute,
    NodeContext,
    NodeOrchestrator,
    NodeReducer,
    ReducerError,
    operation,
)
from podium.nodes.action import ModelAction
from podium.nodes.breaker import CLOSED
from podium.nodes.contract import read_contract
from podium.nodes.enums import EnumActionType
from podium.plan.plan import Block, Node, Step, Workflow
from podium.runtime.rundir import RunDirectory
from podium.runtime.task_slots import TaskSlots
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.nodes import NodeTasks
from podium.runtime.tasks.order import CancelToken, TaskOrder, TaskResult
from podium.testing.virtual_time import run_virtually
from tests.unit.node_runs.running import Ended, Host, Nothing, compiled, contract, effect

CORRELATION = "0b7c1c1e-7f0c-4a5b-9a52-3f1f8a7f8d11"


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    count: int = 1
    correlation_id: str | None = None


class OrderConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    factor: int = 1


class PriceInput(BaseModel):
    event: Order
    config: OrderConfig = OrderConfig()


class PriceOutput(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    price: int
    at: datetime
    workflow: dict[str, Any]


class Price(NodeCompute):
    name = "price"

    @operation
    def price(self, data: PriceInput, context: NodeContext) -> PriceOutput:
        return PriceOutput(
            price=data.event.count * data.config.factor, at=context.now, workflow=dict(context.workflow)
        )


class ResultsInput(BaseModel):
    outputs: dict[str, Any]
    results: dict[str, ModelStepResult]


class Summary(BaseModel):
    outputs: list[str]
    statuses: dict[str, str]
    codes: dict[str, str]


class Summarize(NodeReducer):
    name = "summarize"

    @operation
    def reduce(self, data: ResultsInput, context: NodeContext) -> Summary:
        return Summary(
            outputs=sorted(data.outputs),
            statuses={step: one.status for step, one in data.results.items()},
            codes={step: one.error["code"] for step, one in data.results.items() if one.error},
        )


def run(folder: Path, text: str, *classes: Any, event: dict[str, Any] | None = None) -> Ended:
    async def scenario() -> Ended:
        return await Host(folder, classes).run(text, event)

    return run_virtually(scenario())


PRICE = "{node_id: price, node_type: compute, config: {factor: 3}}"


@pytest.mark.rule("RO02")
def test_a_node_is_given_event_config_time_and_correlation_id(tmp_path: Path) -> None:
    event = {"item": "tea", "count": 2, "correlation_id": CORRELATION}
    ended = run(tmp_path, contract(PRICE), Price, event=event)
    (end,) = ended.payloads("StepCompleted", "price")
    assert end["json"]["price"] == 6
    assert end["json"]["at"] == "2026-01-01T00:00:00Z"
    assert end["correlationId"] == CORRELATION
    workflow = end["json"]["workflow"]
    assert workflow["correlation_id"] == CORRELATION
    assert workflow["workflow_name"] == "Orders"
    assert workflow["execution_mode"] == "sequential"
    assert UUID(workflow["operation_id"])


@pytest.mark.rule("R07", "RO02")
def test_a_node_is_given_how_the_steps_before_it_ended(tmp_path: Path) -> None:
    async def fail(_context: NodeContext) -> None:
        raise ConnectionRefusedError

    text = contract(
        "{node_id: price, node_type: compute}",
        "{node_id: broken, node_type: effect, allow_failure: true}",
        "{node_id: off, node_type: effect, enabled: false}",
        "{node_id: summarize, node_type: reducer, depends_on: [price, broken, off]}",
        rules="max_retries: 0",
    )
    ended = run(tmp_path, text, Price, effect("broken", fail), Summarize, event={"item": "tea"})
    assert ended.run.exit_code == 0
    assert ended.output("summarize") == {
        "outputs": ["price"],
        "statuses": {"price": "completed", "broken": "failed", "off": "skipped"},
        "codes": {"broken": "NODE_ERROR"},
    }


@pytest.mark.rule("RO03")
def test_an_event_that_does_not_fit_is_named_by_its_fields_and_not_tried_again(tmp_path: Path) -> None:
    ended = run(tmp_path, contract(PRICE), Price, event={"count": "secret-4711", "hunter2": 1})
    (end,) = ended.payloads("StepFailed")
    assert end["error"]["code"] == "NODE_INPUT_INVALID"
    message = end["error"]["message"]
    assert "event.item (missing), event.count (int_parsing), event.* (extra_forbidden)" in message
    assert "secret-4711" not in message
    assert "hunter2" not in message


class Liar(NodeCompute):
    name = "liar"

    @operation
    def lie(self, data: Nothing, context: NodeContext) -> PriceOutput:
        return PriceOutput.model_construct(price="much", at=context.now, workflow={})  # type: ignore[arg-type]


@pytest.mark.rule("RO03")
def test_an_output_that_does_not_fit_fails_the_step(tmp_path: Path) -> None:
    ended = run(tmp_path, contract("{node_id: liar, node_type: compute}"), Liar)
    (end,) = ended.payloads("StepFailed")
    assert end["error"]["code"] == "NODE_OUTPUT_INVALID"
    assert "price (int_parsing)" in end["error"]["message"]
    assert "much" not in end["error"]["message"]


class Refuse(NodeReducer):
    name = "refuse"

    @operation
    def reduce(self, data: Nothing, context: NodeContext) -> Nothing:
        raise ReducerError("TOO_MANY_NODES")


@pytest.mark.rule("RO04")
def test_a_reducer_error_is_not_tried_again_and_keeps_its_code(tmp_path: Path) -> None:
    ended = run(tmp_path, contract("{node_id: refuse, node_type: reducer}"), Refuse)
    (end,) = ended.payloads("StepFailed")
    assert (end["error"]["code"], end["error"]["retryable"]) == ("TOO_MANY_NODES", False)


@pytest.mark.rule("RO05")
def test_success_raises_the_epoch_of_the_step_in_the_log(tmp_path: Path) -> None:
    seen: list[ModelAction] = []

    async def act(context: NodeContext) -> None:
        seen.append(context.action)
        if len(seen) == 1:
            raise ConnectionError

    ended = run(tmp_path, contract("{node_id: act, node_type: effect, timeout_ms: 2500}"), effect("act", act))
    assert [end["epoch"] for end in ended.payloads("StepCompleted")] == [1]
    first, second = seen
    assert (first.epoch, second.epoch) == (0, 0)
    assert first.action_id != second.action_id
    assert first.lease_id != second.lease_id
    assert (first.action_type, first.target_node_type) == (EnumActionType.EFFECT, "NodeEffect")
    assert (first.timeout_ms, first.retry_count, first.priority) == (2500, 3, 10)


def order_of(
    body: Node,
    *,
    lease_holds: Callable[[], bool] = lambda: True,
    epoch: int | None = None,
    engine_attempt: int = 1,
) -> TaskOrder:
    values: dict[tuple[str | int, ...], Any] = {("inputs", "event"): {}}
    if epoch is not None:
        values["steps", "act", "epoch"] = epoch
    step = Step("act", body)
    workflow = Workflow("w", Block("graph", (step,)))
    return TaskOrder(
        RunId("r"), "act", 1, engine_attempt, step, workflow, values, {}, {}, lease_holds=lease_holds
    )


def code_of(result: TaskResult) -> str:
    return str(result.payload["error"]["code"])


@pytest.mark.rule("RO05")
def test_a_stale_action_is_not_carried_out(tmp_path: Path) -> None:
    calls: list[int] = []

    async def act(context: NodeContext) -> None:
        calls.append(context.action.epoch)

    async def scenario() -> None:
        host = Host(tmp_path, (effect("act", act),))
        tasks = NodeTasks(TaskHost(RunDirectory(tmp_path, "r"), tmp_path), host.runtime)
        plan = contract("{node_id: act, node_type: effect}")
        body = compiled(plan, effect("act", act)).workflow.block.steps[0].body
        assert isinstance(body, Node)
        lapsed = await tasks.perform(order_of(body, lease_holds=lambda: False), CancelToken())
        assert code_of(lapsed) == "LEASE_EXPIRED"
        assert calls == []
        assert (await tasks.perform(order_of(body), CancelToken())).payload["epoch"] == 1
        assert code_of(await tasks.perform(order_of(body), CancelToken())) == "EPOCH_CONFLICT"
        assert calls == [0]
        # Ordered again by an engine whose log does not have the end of the first.
        again = await tasks.perform(order_of(body, engine_attempt=2), CancelToken())
        assert again.payload["epoch"] == 1
        # And after the log has it.
        assert (await tasks.perform(order_of(body, epoch=1), CancelToken())).payload["epoch"] == 2

    run_virtually(scenario())


@pytest.mark.rule("RO05")
def test_an_effect_whose_lease_was_lost_between_two_tries_is_not_tried_again(tmp_path: Path) -> None:
    calls: list[int] = []

    async def act(context: NodeContext) -> None:
        calls.append(context.action.epoch)
        raise EffectExecutionError("WAREHOUSE_CLOSED")

    async def scenario() -> None:
        host = Host(tmp_path, (effect("act", act),))
        tasks = NodeTasks(TaskHost(RunDirectory(tmp_path, "r"), tmp_path), host.runtime)
        policy = (
            "error_handling: {retry_policy: {max_retries: 3, initial_delay_ms: 100, exponential_base: 2}}"
        )
        plan = f"{contract('{node_id: act, node_type: effect}')}\n{policy}\n"
        body = compiled(plan, effect("act", act)).workflow.block.steps[0].body
        assert isinstance(body, Node)
        order = order_of(body, lease_holds=lambda: not calls)
        assert code_of(await tasks.perform(order, CancelToken())) == "LEASE_EXPIRED"
        assert calls == [0]

    run_virtually(scenario())


def test_a_node_that_ends_the_program_ends_only_its_step(tmp_path: Path) -> None:
    async def leave(_context: NodeContext) -> None:
        raise SystemExit(3)

    text = contract("{node_id: leave, node_type: effect}", rules="max_retries: 0")
    assert run(tmp_path, text, effect("leave", leave)).error("leave")["code"] == "NODE_ERROR"


@pytest.mark.parametrize("cached", [False, True])
def test_a_node_that_is_cancelled_by_its_own_code_fails_only_its_step(
    tmp_path: Path, *, cached: bool
) -> None:
    async def give_up(_context: NodeContext) -> None:
        raise asyncio.CancelledError

    async def scenario() -> None:
        host = Host(tmp_path, (effect("give_up", give_up),))
        tasks = NodeTasks(TaskHost(RunDirectory(tmp_path, "r"), tmp_path), host.runtime)
        plan = contract("{node_id: give_up, node_type: effect}", rules="max_retries: 0")
        body = compiled(plan, effect("give_up", give_up)).workflow.block.steps[0].body
        assert isinstance(body, Node)
        ends: list[TaskResult] = []
        if cached:
            ends.append(await tasks.perform(order_of(body), CancelToken()))
        else:
            running = tasks.start(order_of(body), CancelToken(), ends.append)
            assert running is not None
            await asyncio.wait([running])
            await asyncio.sleep(0)
        assert [code_of(end) for end in ends] == ["NODE_ERROR"]

    run_virtually(scenario())


class Slow(NodeCompute):
    name = "slow"
    in_thread = True

    @operation
    def wait(self, data: Nothing, context: NodeContext) -> Nothing:
        return data


def test_a_compute_may_run_in_a_thread(tmp_path: Path) -> None:
    assert run(tmp_path, contract("{node_id: slow, node_type: compute}"), Slow).run.exit_code == 0


class Coordinator(NodeOrchestrator):
    """Defines nothing but `__init__`."""

    name = "coordinator"

    def __init__(self, container: object) -> None:
        super().__init__(container)
        self.workflow_definition = read_contract(contract(PRICE), "c.yaml").contract.definition  # type: ignore[union-attr]


@pytest.mark.rule("RO02")
def test_an_orchestrator_emits_the_actions_of_the_steps_in_its_config(tmp_path: Path) -> None:
    steps = "[{step_name: Fetch, step_type: effect}, {step_name: Sum, step_type: compute}]"
    text = contract(f"{{node_id: coordinator, node_type: orchestrator, config: {{steps: {steps}}}}}")
    output = run(tmp_path, text, Coordinator).output("coordinator")
    assert output["execution_status"] == "completed"
    targets = [action["target_node_type"] for action in output["actions_emitted"]]
    assert targets == ["NodeEffect", "NodeCompute"]
    assert {action["created_at"] for action in output["actions_emitted"]} == {"2026-01-01T00:00:00Z"}


@pytest.mark.rule("RO03")
def test_the_config_of_an_orchestrator_is_validated_too(tmp_path: Path) -> None:
    text = contract("{node_id: coordinator, node_type: orchestrator, config: {steps: [{step_name: 7}]}}")
    error = run(tmp_path, text, Coordinator).error("coordinator")
    assert error["code"] == "NODE_INPUT_INVALID"
    assert "steps.0.step_type (missing)" in error["message"]


def test_a_cancelled_run_stops_its_effect_and_says_nothing_about_its_service(tmp_path: Path) -> None:
    reached: list[str] = []

    async def hang(_context: NodeContext) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            reached.append("stopped")

    text = contract(
        "{node_id: hang, node_type: effect}",
        rest="error_handling: {circuit_breaker: {failure_threshold: 1}}\n",
    )

    async def scenario() -> None:
        host = Host(tmp_path, (effect("hang", hang),))
        ended = await host.run(text, cancel_after=1)
        assert ended.error("hang")["code"] == "CANCELLED"
        assert reached == ["stopped"]
        assert host.runtime.breakers.state_of("hang") == CLOSED

    run_virtually(scenario())


@pytest.mark.rule("RO05")
def test_a_driver_without_its_lease_does_not_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    async def act(context: NodeContext) -> None:
        calls.append(context.attempt)

    lapsed = chain([False], repeat(True))
    monkeypatch.setattr(TaskSlots, "is_leased", lambda self: next(lapsed))
    ended = run(tmp_path, contract("{node_id: act, node_type: effect}"), effect("act", act))
    assert ended.error("act")["code"] == "LEASE_EXPIRED"
    assert (ended.run.exit_code, calls) == (0, [2])
