"""The registration service: messages become runs, heartbeats and ticks; nothing is lost, nothing is done twice."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from podium.errors import RunNotPrunable
from podium.log.transitions import RunStatus
from podium.nodes.registration.intake import run_for
from podium.operations.registration.continuing import MAX_TRIES
from podium.operations.registration.serving import RegistrationService
from podium.ports.bus import BusRefused
from podium.testing.virtual_time import run_virtually
from tests.unit.registration.building import ack, heartbeat, introspection, node_id, request
from tests.unit.registration_service.world import Site, counted, serve_during, serving


async def registered(site: Site, numbers: range) -> None:
    for number in numbers:
        site.send(introspection(number))
    await site.until_states(AWAITING_ACK=len(numbers))


@pytest.mark.rule("RG01")
def test_nodes_register_acknowledge_stay_alive_by_heartbeats_and_expire_without(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await registered(site, range(1, 6))
        for number in range(1, 6):
            site.send(ack(number))
        await site.until_states(ACTIVE=5)
        for _ in range(10):
            for number in range(1, 5):
                site.send(heartbeat(number, seconds=site.clock.elapsed() + 1))
            await asyncio.sleep(20)
        await site.until_states(ACTIVE=4, LIVENESS_EXPIRED=1)

    site = serving(tmp_path, work)
    types = counted(site.published())
    assert types["NodeBecameActive"] == 5
    assert types["NodeLivenessExpired"] == 1
    assert types["NodeRegistrationAccepted"] == 5
    assert types["NodeRegistrationResultEvent"] == 11
    assert site.view.troubles == []


@pytest.mark.rule("R04")
def test_nodes_whose_runs_fail_do_not_keep_the_deadlines_of_others_from_being_decided(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await registered(site, range(1, 4))
        site.table.damaged = frozenset({node_id(1), node_id(2)})
        await site.until(lambda: site.has_published("NodeRegistrationAckTimedOut"))

    # With two slots, a tick asks for the run of one node.
    serving(tmp_path, work, slots=2)


@pytest.mark.rule("R06")
def test_a_message_that_comes_again_makes_no_second_run(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        for _ in range(5):
            site.send(introspection(1))
        await site.until_states(AWAITING_ACK=1)

        async def all_read() -> bool:
            return service.counts.received["NodeIntrospectionEvent"] == 5

        await site.until(all_read)
        assert (service.counts.runs_created, service.counts.runs_known) == (1, 4)
        assert len(await site.runs()) == 1

    serving(tmp_path, work)


@pytest.mark.rule("R06")
def test_the_same_request_with_other_content_is_a_dead_letter(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.send(introspection(1))
        site.send(introspection(1, node_version="9.9.9"))
        await site.until_states(AWAITING_ACK=1)
        site.send(introspection(2))
        await site.until_states(AWAITING_ACK=2)

    site = serving(tmp_path, work)
    assert site.dead("NodeIntrospectionEvent") == ["RUN_REQUEST_CONFLICT"]


@pytest.mark.rule("R06")
def test_a_message_whose_run_was_removed_is_known_and_no_dead_letter(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.send(introspection(1))
        await site.until_states(AWAITING_ACK=1)

        (run_id,) = await site.runs()

        async def is_removed() -> bool:
            with suppress(RunNotPrunable):
                await site.store.prune(run_id)
            return not await site.runs()

        await site.until(is_removed)
        site.send(introspection(1))

        async def is_handled() -> bool:
            return service.counts.received["NodeIntrospectionEvent"] == 2

        await site.until(is_handled)
        assert (service.counts.runs_created, service.counts.runs_known) == (1, 1)

    site = serving(tmp_path, work)
    assert site.dead("NodeIntrospectionEvent") == []


BAD = {
    "EVENT_NOT_JSON": b"{",
    "EVENT_NOT_AN_OBJECT": b"[]",
    "EVENT_TOO_LARGE": b'{"x": "' + b"y" * 300_000 + b'"}',
    "EVENT_INVALID": introspection(1).model_dump_json().replace("{", '{"hunter2": 1,', 1).encode(),
    "NODE_ID_INVALID": introspection(1).model_dump_json().replace(str(node_id(1)), "hunter2").encode(),
    "EVENT_IN_THE_FUTURE": introspection(1, seconds=7200).model_dump_json().encode(),
    "ENDPOINT_WITH_CREDENTIALS": introspection(1)
    .model_dump_json()
    .replace("http://node", "http://user:hunter2@node")
    .encode(),
}


@pytest.mark.rule("RG04")
@pytest.mark.parametrize("code", BAD)
def test_a_bad_message_is_a_dead_letter_with_one_alert_a_minute_and_the_topic_continues(
    tmp_path: Path, code: str
) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        for _ in range(3):
            site.send(BAD[code], "NodeIntrospectionEvent")
        site.send(introspection(2))
        await site.until_states(AWAITING_ACK=1)

    site = serving(tmp_path, work)
    assert site.dead("NodeIntrospectionEvent") == [code] * 3
    assert site.topics.topics["test.demo.onex.evt.node-introspection.v1.dead"][0].value == BAD[code]
    assert site.view.alerts.count(code) <= 2
    assert "hunter2" not in str(site.view.__dict__)


@pytest.mark.rule("RG04")
def test_a_type_or_version_that_does_not_fit_the_topic_is_a_dead_letter(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.send(introspection(1), event_type="NodeIntrospectionEvent", event_version="2.0.0")
        site.topics.put(
            "test.demo.onex.evt.node-introspection.v1",
            None,
            introspection(1).model_dump_json().encode(),
            (("event_type", b"NodeRegistrationAcked"),),
        )
        site.send(introspection(2), event_version="1.0.0")
        await site.until_states(AWAITING_ACK=1)

    site = serving(tmp_path, work)
    assert site.dead("NodeIntrospectionEvent") == ["EVENT_VERSION_UNKNOWN", "EVENT_TYPE_UNKNOWN"]


@pytest.mark.rule("R04")
def test_heartbeats_of_a_batch_are_one_statement_and_bad_ones_are_dead_letters(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await registered(site, range(1, 4))
        for number in range(1, 4):
            site.send(ack(number))
        await site.until_states(ACTIVE=3)
        before = getattr(site.table, "statements", 0)
        for number in range(1, 4):
            for seconds in (1, 2, 3):
                site.send(heartbeat(number, seconds=site.clock.elapsed() + seconds))
        site.send(b"hunter2", "NodeHeartbeatEvent")

        async def all_read() -> bool:
            return service.counts.received["NodeHeartbeatEvent"] == 10

        await site.until(all_read)
        assert service.counts.renewed == 3
        assert getattr(site.table, "statements", 0) - before == 1

    site = serving(tmp_path, work)
    assert site.dead("NodeHeartbeatEvent") == ["EVENT_NOT_JSON"]


@pytest.mark.rule("R03")
def test_a_tick_of_a_wrong_clock_expires_no_node_and_is_an_alert_without_a_dead_letter(
    tmp_path: Path,
) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        await registered(site, range(1, 3))
        late = (site.clock.now() + timedelta(days=1)).isoformat()
        site.send(f'{{"now": "{late}"}}'.encode(), "RuntimeTick")
        await asyncio.sleep(5)
        assert await site.states() == {"AWAITING_ACK": 2}

    site = serving(tmp_path, work)
    assert "TICK_REFUSED" in site.view.alerts
    assert site.dead("RuntimeTick") == []


@pytest.mark.rule("RG02")
def test_a_side_that_is_away_is_repaired_by_later_ticks(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.services.is_down = True
        for number in range(1, 4):
            site.send(introspection(number))
        await site.until_states(PENDING_REGISTRATION=3)
        await asyncio.sleep(20)
        assert service.world.breakers()["consul"] in ("open", "half-open")
        site.services.is_down = False
        await site.until_states(AWAITING_ACK=3)

    serving(tmp_path, work)


def test_runs_that_failed_because_the_table_was_away_are_continued_when_it_is_back(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.table.is_down = True
        for number in range(1, 4):
            site.send(introspection(number))

        async def failed() -> bool:
            return len(await site.runs(RunStatus.FAILED)) == 3

        await site.until(failed)
        await asyncio.sleep(30)
        site.table.is_down = False
        await site.until_states(AWAITING_ACK=3)
        assert await site.runs(RunStatus.FAILED) == []
        assert service.counts.runs_continued >= 3

    site = serving(tmp_path, work)
    assert counted(site.published())["NodeRegistrationInitiated"] == 3
    assert "hunter2" not in str(site.view.troubles)


@pytest.mark.rule("RG20")
def test_runs_are_continued_however_long_a_service_was_away(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.table.is_down = True
        site.send(introspection())
        await asyncio.sleep(600)
        assert service.counts.runs_continued >= MAX_TRIES
        site.table.is_down = False
        await site.until_states(AWAITING_ACK=1)

    assert serving(tmp_path, work).view.alerts == []


@pytest.mark.rule("RG20")
def test_a_run_that_would_fail_again_is_left_with_one_alert_however_long_it_is_kept(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        start = run_for("NodeIntrospectionEvent", introspection())
        other = {**start.event, "correlation_id": str(node_id(7))}
        await service.world.runs.create(replace(start, event=other))
        await asyncio.sleep(600)
        assert service.counts.runs_continued == 0

    assert serving(tmp_path, work).view.alerts == ["CORRELATION_ID_MISMATCH"]


@pytest.mark.rule("RG20")
def test_a_run_that_fails_for_another_reason_is_left_after_some_tries(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.table.damaged = frozenset({introspection().node_id})
        site.send(introspection())
        await asyncio.sleep(600)
        assert service.counts.runs_continued == MAX_TRIES - 1

    assert serving(tmp_path, work).view.alerts == ["NODE_ERROR"]


@pytest.mark.rule("R05")
def test_with_one_slot_every_topic_has_its_turn(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.send(introspection(1))
        await site.until_states(AWAITING_ACK=1)
        site.send(ack(1))
        await site.until_states(ACTIVE=1)
        await site.until_states(LIVENESS_EXPIRED=1)

    serving(tmp_path, work, slots=1)


@pytest.mark.rule("R05")
def test_there_are_never_more_open_runs_than_slots(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        for number in range(1, 41):
            site.send(introspection(number))
            site.send(request(number))
        while await site.states() != {"AWAITING_ACK": 40}:
            open_runs = set(RunStatus) - {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED}
            assert len(await site.runs(*open_runs)) <= 4
            await asyncio.sleep(0.005)

    site = serving(tmp_path, work, slots=4)
    assert 1 < site.services.most_calls <= 4


def test_a_service_that_is_killed_is_continued_by_the_next_one(tmp_path: Path) -> None:
    async def killed(site: Site, service: RegistrationService) -> None:
        for number in range(1, 21):
            site.send(introspection(number))
        while len(await site.runs()) < 10:
            await asyncio.sleep(0.001)

    async def again(site: Site, service: RegistrationService) -> None:
        await site.until_states(AWAITING_ACK=20)

        async def all_published() -> bool:
            # What the killed relay had claimed comes when its claims have lapsed.
            return counted(site.published())["NodeRegistrationAccepted"] >= 20

        await site.until(all_published, 60)

    async def whole() -> None:
        site = Site(tmp_path)
        await serve_during(site, killed, kill=True)
        await serve_during(site, again)
        assert len(await site.runs()) == 20

    run_virtually(whole())


def test_heartbeats_from_an_outage_are_counted_before_deadlines_are_decided(tmp_path: Path) -> None:
    """Nodes that sent heartbeats all the time do not expire because the service was away."""

    async def active(site: Site, service: RegistrationService) -> None:
        await registered(site, range(1, 6))
        for number in range(1, 6):
            site.send(ack(number))
        await site.until_states(ACTIVE=5)

    async def later(site: Site, service: RegistrationService) -> None:
        await asyncio.sleep(60)
        assert await site.states() == {"ACTIVE": 5}

    async def whole() -> None:
        site = Site(tmp_path)
        await serve_during(site, active)
        for _ in range(20):
            await asyncio.sleep(30)
            for number in range(1, 6):
                site.send(heartbeat(number, seconds=site.clock.elapsed()))
        # More of them than a batch has, so that ticks are read while they wait.
        for _ in range(600):
            site.send(heartbeat(9, seconds=site.clock.elapsed()))
        for number in range(1, 6):
            site.send(heartbeat(number, seconds=site.clock.elapsed()))
        # Ticks come before the first statement has ended.
        site.table.renew_seconds = 3
        await serve_during(site, later)

    run_virtually(whole())


def test_ended_runs_are_removed_after_a_while(tmp_path: Path) -> None:
    async def work(site: Site, service: RegistrationService) -> None:
        site.send(request(1))
        site.send(request(2))

        async def are_there() -> bool:
            return len(await site.runs(RunStatus.COMPLETED)) == 2

        async def are_gone() -> bool:
            return not await site.runs() and not list(tmp_path.glob("registration-*"))

        await site.until(are_there)
        await asyncio.sleep(1200)
        assert await are_there()
        await site.until(are_gone, 3600)

    serving(tmp_path, work, keep=timedelta(minutes=30), tick=60)


def test_a_bus_that_fails_or_refuses_its_credentials_while_it_runs_is_reported_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot_send(*_: object) -> None:
        raise OSError("hunter2")

    async def refuses(*_: object) -> None:
        raise BusRefused("memory refuses this")

    async def work(site: Site, service: RegistrationService) -> None:
        bus = service.world.bus
        sources = service.world.sources.values()
        with monkeypatch.context() as away:
            away.setattr(bus, "send", cannot_send)
            away.setattr(bus, "publish", refuses)
            for source in sources:
                away.setattr(source, "commit", cannot_send)
            site.send(introspection(1))
            await asyncio.sleep(600)
        await site.until(lambda: site.has_published("NodeRegistrationAccepted"))
        assert {one.partition(": ")[0] for one in site.view.troubles} >= {
            "publishing ticks",
            "publishing events",
        }
        assert "publishing events" in site.view.back_again

    site = serving(tmp_path, work)
    assert "hunter2" not in str(site.view.troubles)


def test_a_bus_that_never_answers_does_not_keep_the_service_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_answers(*_: object) -> int:
        await asyncio.sleep(100_000)
        return 0

    async def whole() -> None:
        site = Site(tmp_path)
        service = site.service(drain=10)
        serving = asyncio.create_task(service.serve())
        await registered(site, range(1, 2))
        monkeypatch.setattr(service.world.bus, "publish", never_answers)
        site.send(introspection(2))
        await site.until_states(AWAITING_ACK=2)
        await asyncio.sleep(5)
        service.stop()
        before = site.clock.elapsed()
        await serving
        assert site.clock.elapsed() - before < 30

    run_virtually(whole())
