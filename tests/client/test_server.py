"""The clients against `podium up` over a real socket: from a workflow to its report, refusals, and restarts."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.client import AsyncClient, Client, Event, Retries, ServerError
from tests.server.site import FAILS, FLOW, WAITS
from tests.server.test_up import WAIT, Up, until

PATIENT = Retries(attempts=60, max_wait=2.0)


class Server(Up):
    """On one port for all of its life, so that clients find it again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        super().__init__(folder, "--port", port)
        self.url = f"http://127.0.0.1:{port}"
        roles = [option for role in ("admin", "author", "approver") for option in ("--role", role)]
        self.token = self.podium("token", "add", "all", *roles).split()[-1]

    def client(self, token: str | None = None) -> Client:
        return Client(self.url, token or self.token, timeout=WAIT, reconnects=PATIENT)

    def async_client(self) -> AsyncClient:
        return AsyncClient(self.url, self.token, timeout=WAIT, reconnects=PATIENT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("up"))
    yield running
    running.stop()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as made:
        yield made


def is_asking(event: Event) -> bool:
    return event.event_type == "StepStarted"


def test_a_workflow_is_published_started_followed_approved_and_reported(client: Client) -> None:
    assert client.validate(WAITS).valid
    plan = client.publish(WAITS)
    assert client.publish(WAITS) == plan == client.plan("waits")
    assert plan in client.plans().plans
    started = client.start(plan.ref, labels={"team": "web"})
    assert started.outcome == "created"
    events = []
    for event in client.follow(started.run_id):
        events.append(event)
        if is_asking(event):
            why = client.why(started.run_id)
            assert [reason.kind for reason in why.waits_for] == ["approval"]
            assert client.approve(started.run_id, "Ask", reason="fine").decision == "ACCEPTED"
    assert [event.run_seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].event_type == "RunCompleted"
    assert client.events(started.run_id, limit=500).events == tuple(events)
    report = client.report(started.run_id)
    assert (report.status, [step.step for step in report.steps]) == ("COMPLETED", ["Ask"])
    found = client.run(started.run_id)
    assert (found.run.status, found.run.labels) == ("COMPLETED", {"team": "web"})
    assert client.why(started.run_id).driven is None


def test_the_same_is_done_in_an_event_loop(server: Server) -> None:
    async def scenario() -> None:
        async with server.async_client() as client:
            plan = await client.publish(WAITS)
            run_id = (await client.start(plan.ref)).run_id
            numbers = []
            async for event in client.follow(run_id):
                numbers.append(event.run_seq)
                if is_asking(event):
                    await client.approve(run_id, "Ask")
            page = await client.events(run_id, limit=500)
            assert numbers == [event.run_seq for event in page.events]
            assert (await client.report(run_id)).status == "COMPLETED"
            assert (await client.me()).actor == "all"
            assert run_id in [run.run_id async for run in client.all_runs(plan="waits")]
            assert (await client.inputs(run_id)) == {}
            assert (await client.logs(run_id)) == ()
            assert (await client.artifacts(run_id)) == ()
            await client.remove(run_id)
            with pytest.raises(ServerError) as caught:
                await client.run(run_id)
            assert caught.value.code == "RUN_NOT_FOUND"

    asyncio.run(asyncio.wait_for(scenario(), 2 * WAIT))


def test_logs_inputs_steps_and_lists_of_runs_are_read(client: Client) -> None:
    # Of a plan that no other test runs.
    plan = client.publish(FLOW.replace("name: flow", "name: listed"))
    first = client.start(plan.sha256, {"who": "ada"}, idempotency_key="one-run").run_id
    again = client.start(plan.sha256, {"who": "ada"}, idempotency_key="one-run")
    assert (again.run_id, again.outcome) == (first, "duplicate")
    second = client.start(plan.sha256).run_id
    for run_id in (first, second):
        assert list(client.follow(run_id))[-1].event_type == "RunCompleted"
    assert client.inputs(first) == {"who": "ada"}
    assert client.log(first, "Greet") == b"hello ada\n"
    assert client.log(first, "Greet", after=6) == b"ada\n"
    assert {log.stream for log in client.logs(first)} >= {"out"}
    assert [step.status for step in client.steps(first).steps] == ["SUCCESS"]
    assert client.artifacts(first) == ()
    page = client.runs(plan=plan.plan_id, limit=1)
    assert [run.run_id for run in page.runs] == [second]
    assert page.cursor is not None
    assert [run.run_id for run in client.all_runs("status=COMPLETED", plan=plan.plan_id)] == [second, first]
    copy = client.rerun(first)
    assert copy.run_id not in (first, second)
    assert list(client.follow(copy.run_id))[-1].event_type == "RunCompleted"


def test_a_run_is_paused_continued_cancelled_and_resumed(client: Client) -> None:
    run_id = client.start(client.publish(WAITS).ref).run_id
    for event in client.follow(run_id):
        if is_asking(event):
            break
    assert client.pause(run_id, "lunch").signal_type == "PAUSE"
    until(lambda: client.run(run_id).run.status == "PAUSED" or None, lambda: str(client.run(run_id)))
    client.unpause(run_id)
    until(lambda: client.run(run_id).run.status == "RUNNING" or None, lambda: str(client.run(run_id)))
    client.cancel(run_id)
    assert list(client.follow(run_id))[-1].event_type == "RunCancelled"
    client.resume(run_id)
    until(lambda: client.run(run_id).run.status == "RUNNING" or None, lambda: str(client.run(run_id)))
    until(lambda: client.why(run_id).waits_for or None, lambda: str(client.why(run_id)))
    client.reject(run_id, "Ask", reason="no")
    events = list(client.follow(run_id))
    assert [event.run_seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].event_type == "RunFailed"


def test_a_failed_run_says_why_and_what_resume_would_do(client: Client) -> None:
    run_id = client.start(client.publish(FAILS).ref).run_id
    assert list(client.follow(run_id))[-1].event_type == "RunFailed"
    assert client.why(run_id).status
    assert client.report(run_id).steps[0].error
    assert client.run(run_id).run.status == "FAILED"


def test_refusals_have_the_code_and_the_place(client: Client, server: Server) -> None:
    with pytest.raises(ServerError) as caught:
        client.run("no-such-run")
    assert (caught.value.code, caught.value.status) == ("RUN_NOT_FOUND", 404)
    assert caught.value.request_id
    with pytest.raises(ServerError) as caught:
        list(client.follow("no-such-run"))
    assert caught.value.code == "RUN_NOT_FOUND"
    with pytest.raises(ServerError) as caught:
        client.start(client.publish(FLOW).ref, {"whom": "ada"})
    assert caught.value.code == "INVALID_INPUT"
    with pytest.raises(ServerError) as caught:
        client.publish("version: 7")
    assert caught.value.code == "INVALID_WORKFLOW"
    assert caught.value.diagnostics
    assert not client.validate("version: 7").valid
    with pytest.raises(ServerError) as caught:
        client.start("flow@1", priority=5000)
    assert (caught.value.code, caught.value.location) == ("REQUEST_INVALID", "$.priority")
    with server.client("podium_wrong") as other, pytest.raises(ServerError) as caught:
        other.me()
    assert (caught.value.code, caught.value.status) == ("UNAUTHENTICATED", 401)
    viewer = server.podium("token", "add", "v", "--role", "viewer").split()[-1]
    with server.client(viewer) as other, pytest.raises(ServerError) as caught:
        other.publish(FLOW)
    assert (caught.value.code, caught.value.status) == ("AUTHZ_DENIED", 403)


def test_at_a_limit_a_run_waits_or_is_refused_as_the_caller_says(client: Client, server: Server) -> None:
    plan = client.publish(WAITS.replace("name: waits", "name: limited"))
    server.podium("limits", "set", "plan", plan.plan_id, "1")
    first = client.start(plan.ref).run_id
    for event in client.follow(first):
        if is_asking(event):
            break
    with pytest.raises(ServerError) as caught:
        client.start(plan.ref, on_limit="reject")
    assert (caught.value.code, caught.value.status) == ("RUN_REFUSED", 429)
    assert caught.value.retry_after is not None
    queued = client.start(plan.ref, on_limit="queue")
    assert queued.outcome == "queued"
    assert queued.position == 1
    client.cancel(queued.run_id)
    client.cancel(first)


def test_schedules_are_added_paused_triggered_and_removed(client: Client) -> None:
    plan = client.publish(FLOW)
    made = client.add_schedule("nightly", plan.ref, {"who": "bob"}, cron="0 3 * * *", overlap="skip")
    assert (made.id, made.state, made.plan.sha256) == ("nightly", "active", plan.sha256)
    paused = client.pause_schedule("nightly", "holiday")
    assert paused.pause is not None
    assert paused.pause.reason == "holiday"
    assert client.resume_schedule("nightly").state == "active"
    run_id = client.trigger_schedule("nightly").run_id
    assert client.inputs(run_id) == {"who": "bob"}
    assert client.schedule("nightly").ticks[0].run_id == run_id
    assert [one.id for one in client.schedules().schedules] == ["nightly"]
    client.remove_schedule("nightly")
    assert client.schedules().schedules == ()


def test_a_plan_is_approved_by_its_hash(client: Client) -> None:
    plan = client.publish(FLOW.replace("name: flow", "name: approved"))
    assert client.approve_plan(plan.plan_id, plan.sha256).approved_by == "all"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_is_followed_without_a_gap_while_the_server_is_restarted(tmp_path: Path, how: int) -> None:
    server = Server(tmp_path)
    try:
        _follow_through_a_restart(server, how)
    finally:
        server.stop()


def _follow_through_a_restart(server: Server, how: int) -> None:
    asked = threading.Event()
    seen: list[Event] = []
    with server.client() as client:
        run_id = client.start(client.publish(WAITS).ref).run_id

        def follow() -> None:
            for event in client.follow(run_id):
                seen.append(event)
                if is_asking(event):
                    asked.set()

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        assert asked.wait(WAIT)
        readies = server.output().count("ready: http://")
        os.kill(_server_process(server), how)
        until(lambda: server.output().count("ready: http://") > readies or None, server.output)
        with server.client() as other:
            other.approve(run_id, "Ask")
            follower.join(2 * WAIT)
            assert not follower.is_alive()
            wanted = other.events(run_id, limit=500).events
    assert tuple(seen) == wanted
    assert wanted[-1].event_type == "RunCompleted"


def _server_process(server: Server) -> int:
    (found,) = (
        child
        for child in server.children()
        if b"podium.server" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return found
