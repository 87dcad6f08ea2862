"""The checker itself: it accepts what is right, and notices each kind of difference that is planted."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.registration.checker import RESULT, Expected, Picture, Published, expected_meta, problems

T0 = datetime(2026, 1, 1, tzinfo=UTC)
ALIVE, SILENT, REFUSED = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(3))
# Revision, epoch, and what was published by the run that made it.
HISTORIES: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {
    ALIVE: [
        (2, 1, ("Initiated", "Accepted")),
        (4, 1, ("AckTimedOut", "Initiated", "Accepted")),
        (5, 1, ("AckReceived", "BecameActive")),
    ],
    SILENT: [
        (2, 1, ("Initiated", "Accepted")),
        (3, 1, ("AckReceived", "BecameActive")),
        (5, 1, ("LivenessExpired",)),
        (7, 2, ("Initiated", "Accepted")),
        (8, 2, ("AckReceived", "BecameActive")),
        (10, 2, ("LivenessExpired",)),
    ],
    REFUSED: [(1, 1, ("Initiated", "Rejected"))],
}
STATES = {ALIVE: "ACTIVE", SILENT: "LIVENESS_EXPIRED", REFUSED: "REJECTED"}
EPOCHS = {ALIVE: 1, SILENT: 2, REFUSED: 1}


def description(node_id: str) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "node_type": "effect",
        "node_version": "1.0.0" if node_id != REFUSED else "?",
        "capabilities": {"speed": 3},
        "endpoints": {"health": "http://node:8080/health"},
        "node_role": "adapter",
        "metadata": {"team": "red"},
        "correlation_id": node_id.replace("8000", "9000"),
        "epoch": EPOCHS[node_id],
        "timestamp": T0.isoformat(),
    }


def name_of(word: str) -> str:
    return f"Node{word}" if word in ("BecameActive", "LivenessExpired") else f"NodeRegistration{word}"


def events_of(node_id: str) -> list[Published]:
    found = []
    for revision, epoch, words in HISTORIES[node_id]:
        run_id = f"{node_id}-{revision}"
        common = {"node_id": node_id, "revision": revision, "epoch": epoch}
        found += [Published(name_of(word), f"{run_id}-{word}", run_id, common) for word in words]
        body = common | {"status": "success", "consul_applied": True, "postgres_applied": True}
        found.append(Published(RESULT, f"{run_id}-result", run_id, body))
    return found


def projection_of(node_id: str) -> dict[str, Any]:
    state = STATES[node_id]
    return {
        "node_id": node_id,
        "revision": HISTORIES[node_id][-1][0],
        "state": state,
        "node": description(node_id),
        "consul_applied": True,
        "postgres_applied": True,
        "ack_deadline": None,
        "liveness_deadline": T0 + timedelta(seconds=90) if state == "ACTIVE" else None,
        "retry_at": None,
    }


def right_picture() -> Picture:
    rows = [{**description(one), "timestamp": T0} for one in (ALIVE, SILENT)]
    node = description(ALIVE)
    return Picture(
        services=[
            {
                "Node": "podium",
                "ID": ALIVE,
                "Service": "onex-effect",
                "Tags": ["version-1.0.0"],
                "Meta": expected_meta(node),
            }
        ],
        registrations=[{**rows[0], "status": "registered"}, {**rows[1], "status": "retired"}],
        projections=[projection_of(one) for one in STATES],
        events=[event for one in STATES for event in events_of(one)],
    )


def expected() -> dict[str, Expected]:
    return {
        one: Expected(state, description(one), description(one) if one != REFUSED else None)
        for one, state in STATES.items()
    }


def test_a_right_picture_has_no_problems_whatever_the_order_of_its_events() -> None:
    picture = right_picture()
    assert problems(picture, expected()) == []
    picture.events = [*reversed(picture.events), *picture.events]
    assert problems(picture, expected()) == []


def without_event(name: str, node_id: str) -> Callable[[Picture], None]:
    def plant(picture: Picture) -> None:
        first = next(one for one in picture.events if one.type == name and one.body["node_id"] == node_id)
        picture.events.remove(first)

    return plant


def another(name: str, node_id: str, **values: Any) -> Callable[[Picture], None]:
    def plant(picture: Picture) -> None:
        last = [one for one in picture.events if one.type == name and one.body["node_id"] == node_id][-1]
        body = {**last.body, **values}
        picture.events.append(Published(name, "another event", values.get("run_id", last.run_id), body))

    return plant


def changed(side: str, index: int, **values: Any) -> Callable[[Picture], None]:
    return lambda picture: getattr(picture, side)[index].update(values)


def removed(side: str, index: int) -> Callable[[Picture], None]:
    return lambda picture: getattr(picture, side).pop(index)


def repeated(picture: Picture) -> None:
    service = picture.services[0]
    picture.services.append({**service, "ID": "0" * 8 + service["ID"][8:-1] + "f"})


PLANTED: dict[str, tuple[Callable[[Picture], None], str]] = {
    "a service is missing": (removed("services", 0), "missing service"),
    "a service was left": (changed("services", 0, ID=SILENT, Meta={}), "unexpected service"),
    "a service has another name": (changed("services", 0, Service="onex-compute"), "wrong service"),
    "a service has another tag": (changed("services", 0, Tags=["version-2.0.0"]), "wrong service"),
    "metadata differ": (changed("services", 0, Meta={"node_id": ALIVE, "epoch": "1"}), "wrong meta"),
    "the epoch in Consul differs": (
        changed("services", 0, Meta=expected_meta(description(ALIVE)) | {"epoch": "2"}),
        "wrong epoch",
    ),
    "a node is registered twice in Consul": (repeated, "registered twice"),
    "a row is missing": (removed("registrations", 0), "missing row"),
    "a row has another status": (changed("registrations", 1, status="registered"), "wrong status"),
    "a row has another epoch": (changed("registrations", 0, epoch=None), "wrong epoch"),
    "a row has other capabilities": (changed("registrations", 0, capabilities={}), "wrong field"),
    "a row has another time": (changed("registrations", 0, timestamp=T0 + timedelta(1)), "wrong field"),
    "a row is of an unknown node": (changed("registrations", 0, node_id="other"), "unexpected row"),
    "a projection is missing": (removed("projections", 0), "missing projection"),
    "a projection has another state": (changed("projections", 0, state="AWAITING_ACK"), "wrong state"),
    "a projection has another node": (
        changed("projections", 0, node={**description(ALIVE), "node_role": "other"}),
        "wrong field",
    ),
    "a side is not applied": (changed("projections", 0, consul_applied=False), "not applied"),
    "a deadline is left": (changed("projections", 1, liveness_deadline=T0), "wrong deadlines"),
    "the revision goes back": (changed("projections", 0, revision=4), "revision goes back"),
    "an event comes again with other content": (
        lambda picture: picture.events.append(
            Published(picture.events[0].type, picture.events[0].event_id, "other", {"node_id": ALIVE})
        ),
        "event differs",
    ),
    "an event has no transition": (
        another("NodeBecameActive", ALIVE, revision=6),
        "event without its transition",
    ),
    "a node is registered twice": (
        another("NodeRegistrationAccepted", ALIVE, revision=4),
        "event without its transition",
    ),
    "a transition in the middle has no event": (
        without_event("NodeLivenessExpired", SILENT),
        "transition without its event",
    ),
    "the first transition has no event": (
        without_event("NodeRegistrationInitiated", ALIVE),
        "transition without its event",
    ),
    "the last transition has no event": (
        without_event("NodeBecameActive", ALIVE),
        "transition without its event",
    ),
    "two runs use one revision": (
        another("NodeRegistrationRejected", REFUSED, run_id="other"),
        "revision used twice",
    ),
    "a run has no result": (without_event(RESULT, REFUSED), "missing result"),
    "a run has two results": (another(RESULT, ALIVE), "two results"),
    "a result differs": (
        changed("projections", 2, postgres_applied=False),
        "wrong result",
    ),
    "a message could not be used": (lambda picture: picture.dead.append("EVENT_INVALID"), "dead letter"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_checker_notices(name: str) -> None:
    plant, kind = PLANTED[name]
    picture = right_picture()
    plant(picture)
    found = problems(picture, expected())
    assert any(one.startswith(kind) for one in found), found


def test_the_checker_notices_an_epoch_that_goes_back() -> None:
    picture = right_picture()
    picture.events = [
        Published(one.type, one.event_id, one.run_id, {**one.body, "epoch": 1})
        if one.body["node_id"] == SILENT and one.body["revision"] == 10
        else one
        for one in picture.events
    ]
    assert any(one.startswith("epoch goes back") for one in problems(picture, expected()))
