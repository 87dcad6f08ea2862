"""Two retry levels and the circuit breaker, as a timeline (virtual time: every pause is exact)."""

import asyncio
from pathlib import Path

import pytest

from podium.nodes import EffectExecutionError, NodeContext
from podium.nodes.breaker import CLOSED, abandoned, admit, failed, phase_of, succeeded
from podium.plan.plan import NodeBreaker
from podium.testing.virtual_time import run_virtually
from tests.unit.node_runs.running import Host, Work, contract, effect

POLICY = """error_handling:
  retry_policy: {max_retries: 3, initial_delay_ms: 100, exponential_base: 2, max_delay_ms: 5000}
  circuit_breaker: {enabled: true, failure_threshold: 5, reset_timeout_ms: 60000}
"""
CALL = "{node_id: call, node_type: effect}"
CONTRACT = contract(CALL, rules="max_retries: 3", rest=POLICY)
ONE_ATTEMPT = [0, 100, 300, 700]
FOUR_ATTEMPTS = [700 * attempt + at for attempt in range(4) for at in ONE_ATTEMPT]


class Service:
    """Fails until it is repaired, and notes when it was called, in milliseconds."""

    def __init__(self, error: type[Exception] = EffectExecutionError) -> None:
        self.calls: list[int] = []
        self.is_repaired = False
        self._error = error

    async def call(self, _context: NodeContext) -> None:
        self.calls.append(round(asyncio.get_running_loop().time() * 1000))
        if not self.is_repaired:
            raise self._error()

    def take(self) -> list[int]:
        """When it was called since it was asked last, from the first call on."""
        calls, self.calls = self.calls, []
        return [at - calls[0] for at in calls]


def now() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


def host_of(work: Work, folder: Path) -> Host:
    return Host(folder, (effect("call", work),))


@pytest.mark.rule("R08")
def test_the_timeline_of_both_levels_and_the_breaker(tmp_path: Path) -> None:
    service = Service()

    async def scenario() -> None:
        host = host_of(service.call, tmp_path)
        # Four attempts of the step without delay, each with three more tries after 100, 200 and 400 ms.
        first = await host.run(CONTRACT)
        assert first.run.exit_code == 1
        assert service.take() == FOUR_ATTEMPTS
        assert [one["error"]["code"] for one in first.payloads("StepFailed")] == ["EFFECT_FAILED"] * 4
        # The fifth failed attempt opens the breaker. The next attempt is refused without a call and ends the step.
        second = await host.run(CONTRACT)
        assert service.take() == ONE_ATTEMPT
        assert [one["error"]["code"] for one in second.payloads("StepFailed")] == [
            "EFFECT_FAILED",
            "CIRCUIT_OPEN",
        ]
        opened = now()
        # Until 60 seconds have passed nothing is called, and nothing is tried again.
        await asyncio.sleep((opened + 59_999 - now()) / 1000)
        refused = await host.run(CONTRACT)
        assert [one["error"]["code"] for one in refused.payloads("StepFailed")] == ["CIRCUIT_OPEN"]
        assert service.take() == []
        # Then one probe: its failure opens the breaker again for 60 seconds.
        await asyncio.sleep((opened + 60_001 - now()) / 1000)
        probed = await host.run(CONTRACT)
        assert service.take() == ONE_ATTEMPT
        assert [one["error"]["code"] for one in probed.payloads("StepFailed")] == [
            "EFFECT_FAILED",
            "CIRCUIT_OPEN",
        ]
        # A probe that succeeds closes it.
        service.is_repaired = True
        await asyncio.sleep(60.001)
        assert (await host.run(CONTRACT)).run.exit_code == 0
        assert service.take() == [0]
        service.is_repaired = False
        await host.run(CONTRACT)
        assert service.take() == FOUR_ATTEMPTS

    run_virtually(scenario())


@pytest.mark.rule("R08")
@pytest.mark.parametrize("error", [ConnectionResetError, TimeoutError])
def test_connection_and_timeout_errors_are_tried_again_inside_the_effect(
    error: type[Exception], tmp_path: Path
) -> None:
    service = Service(error)

    async def scenario() -> None:
        await host_of(service.call, tmp_path).run(contract(CALL, rules="max_retries: 0", rest=POLICY))
        assert service.calls == ONE_ATTEMPT

    run_virtually(scenario())


@pytest.mark.rule("R08")
def test_other_errors_are_left_to_the_attempts_of_the_step_and_do_not_open_the_breaker(
    tmp_path: Path,
) -> None:
    service = Service(ValueError)

    async def scenario() -> None:
        host = host_of(service.call, tmp_path)
        for _ in range(3):
            ended = await host.run(CONTRACT)
            assert [one["error"]["code"] for one in ended.payloads("StepFailed")] == ["NODE_ERROR"] * 4
        assert service.calls == [0] * 12
        assert phase_of(host.runtime.breakers.state_of("call"), NodeBreaker(), now()) == "closed"

    run_virtually(scenario())


@pytest.mark.rule("R08")
def test_pauses_are_never_longer_than_the_cap(tmp_path: Path) -> None:
    service = Service()
    policy = "error_handling:\n  retry_policy: {max_retries: 5, initial_delay_ms: 1000, max_delay_ms: 3000}\n"

    async def scenario() -> None:
        text = contract("{node_id: call, node_type: effect}", rules="max_retries: 0", rest=policy)
        await host_of(service.call, tmp_path).run(text)
        assert service.calls == [0, 1000, 3000, 6000, 9000, 12000]

    run_virtually(scenario())


@pytest.mark.rule("R08")
def test_only_one_probe_passes_while_the_breaker_is_half_open(tmp_path: Path) -> None:
    calls: list[int] = []

    async def slow(_context: NodeContext) -> None:
        calls.append(now())
        await asyncio.sleep(1)
        raise EffectExecutionError

    policy = "error_handling:\n  circuit_breaker: {failure_threshold: 1, reset_timeout_ms: 5000}\n"
    text = contract(CALL, rules="max_retries: 0", rest=policy)

    async def scenario() -> None:
        host = host_of(slow, tmp_path)
        await host.run(text)
        await asyncio.sleep(6)
        ended = await asyncio.gather(host.run(text), host.run(text))
        codes = sorted(one.error("call")["code"] for one in ended)
        assert codes == ["CIRCUIT_OPEN", "EFFECT_FAILED"]
        assert calls == [0, 7000]

    run_virtually(scenario())


@pytest.mark.rule("R08")
def test_a_call_that_passed_before_the_breaker_opened_neither_closes_it_nor_ends_its_probe() -> None:
    settings = NodeBreaker(failures=1, reset=60)
    state, call = admit(CLOSED, settings, 0)
    opened = failed(state, call, settings, 1)
    assert (call, opened.opened_at) == ("call", 1)
    assert succeeded(opened, call) == opened
    assert failed(opened, call, settings, 30) == opened
    probing, probe = admit(opened, settings, 61)
    assert probe == "probe"
    for late in (succeeded(probing, call), failed(probing, call, settings, 62), abandoned(probing, call)):
        assert late == probing
    assert succeeded(probing, probe) == CLOSED
    # A probe that says nothing about the service makes room for the next one.
    assert admit(abandoned(probing, probe), settings, 62)[1] == "probe"


@pytest.mark.rule("R08")
def test_an_attempt_that_takes_too_long_ends_at_its_timeout_and_counts_as_a_failure(tmp_path: Path) -> None:
    async def hang(_context: NodeContext) -> None:
        await asyncio.sleep(3600)

    policy = "error_handling:\n  circuit_breaker: {failure_threshold: 1}\n"
    text = contract(
        "{node_id: call, node_type: effect, timeout_ms: 2000}", rules="max_retries: 0", rest=policy
    )

    async def scenario() -> None:
        host = host_of(hang, tmp_path)
        ended = await host.run(text)
        assert ended.error("call")["code"] == "TIMEOUT"
        assert now() == 2000
        assert (await host.run(text)).error("call")["code"] == "CIRCUIT_OPEN"

    run_virtually(scenario())
