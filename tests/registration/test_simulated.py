"""The simulated nodes: what they send follows from what they hear, and copies are as many as were asked for."""

from datetime import UTC, datetime, timedelta

from tests.registration.checker import Published
from tests.registration.simulated import ACK, HEARTBEAT, INTROSPECTION, REQUEST, Fleet, Part, Sent

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class Story:
    """One node, and a time that is moved."""

    def __init__(self, part: Part) -> None:
        self.fleet = Fleet(1, 0, parts=[part], pulse=1.0, patience=4.0)
        (self.node,) = self.fleet.nodes.values()
        self.now = T0
        self.revision = 0
        self.fleet.introduce(T0)

    def sent(self, seconds: float = 0) -> list[Sent]:
        self.now += timedelta(seconds=seconds)
        return list(self.fleet.due(self.now))

    def topics(self, seconds: float = 0) -> list[str]:
        return [one.topic for one in self.sent(seconds)]

    def hear(self, *names: str, epoch: int | None = None) -> None:
        self.revision += 1
        body = {
            "node_id": self.node.node_id,
            "revision": self.revision,
            "epoch": epoch if epoch is not None else self.node.epoch,
        }
        for name in names:
            self.fleet.hear(Published(name, f"{self.revision}/{name}", "run", body), self.now)


def accepted(part: Part) -> Story:
    story = Story(part)
    assert story.topics() == [INTROSPECTION]
    story.hear("NodeRegistrationInitiated", "NodeRegistrationAccepted")
    return story


def active(part: Part) -> Story:
    story = accepted(part)
    assert story.topics() == [ACK]
    story.hear("NodeRegistrationAckReceived", "NodeBecameActive")
    return story


def test_a_steady_node_acknowledges_once_and_sends_heartbeats() -> None:
    story = active(Part.STEADY)
    assert [story.topics(0.5) for _ in range(4)] == [[HEARTBEAT], [], [HEARTBEAT], []]
    assert story.node.expected().state == "ACTIVE"


def test_a_transition_is_heard_although_the_result_of_a_later_run_came_first() -> None:
    story = active(Part.STEADY)
    assert story.topics() == [HEARTBEAT]
    before, story.revision = story.revision, story.revision + 1
    story.hear("NodeRegistrationResultEvent")
    story.revision = before
    story.hear("NodeLivenessExpired")
    assert story.topics() == [INTROSPECTION]


def test_a_late_event_is_dropped_by_its_revision() -> None:
    story = active(Part.STEADY)
    story.revision = 0
    story.hear("NodeLivenessExpired")
    assert story.topics() == [HEARTBEAT]


def test_a_late_node_ignores_the_first_acceptance_only() -> None:
    story = accepted(Part.LATE)
    assert story.topics() == []
    story.hear("NodeRegistrationAckTimedOut", "NodeRegistrationInitiated", "NodeRegistrationAccepted")
    assert story.topics() == [ACK]


def test_a_returning_node_falls_silent_and_comes_back_with_a_higher_epoch() -> None:
    story = active(Part.RETURNING)
    assert story.topics() == [HEARTBEAT]
    assert story.topics(10) == []
    story.hear("NodeLivenessExpired")
    (sent,) = story.sent()
    assert (sent.topic, sent.body["epoch"]) == (INTROSPECTION, 2)
    story.hear("NodeRegistrationInitiated", "NodeRegistrationAccepted")
    story.hear("NodeRegistrationAckReceived", "NodeBecameActive")
    assert story.topics(10) == [ACK, HEARTBEAT]


def test_a_leaving_node_stays_silent() -> None:
    story = active(Part.LEAVING)
    story.sent(10)
    story.hear("NodeLivenessExpired")
    assert story.topics(100) == []
    assert story.node.expected().state == "LIVENESS_EXPIRED"


def test_a_changing_node_describes_itself_again_while_it_is_active() -> None:
    story = active(Part.CHANGING)
    sent = story.sent(10)
    assert [one.topic for one in sent] == [INTROSPECTION, HEARTBEAT]
    assert {one.body["epoch"] for one in sent} == {2}


def test_a_requested_node_asks_once() -> None:
    story = active(Part.REQUESTED)
    assert story.topics(10) == [REQUEST, HEARTBEAT]
    assert story.topics(10) == [HEARTBEAT]


def test_a_refused_node_stays_refused_and_a_corrected_one_comes_back() -> None:
    refused, corrected = Story(Part.REFUSED), Story(Part.CORRECTED)
    for story in (refused, corrected):
        story.sent()
        story.hear("NodeRegistrationInitiated", "NodeRegistrationRejected")
    assert refused.topics() == []
    assert (refused.node.expected().state, refused.node.expected().registered) == ("REJECTED", None)
    (sent,) = corrected.sent()
    assert sent.body["epoch"] == 2
    assert corrected.node.expected().registered == sent.body


def test_a_node_that_was_put_to_sleep_sends_nothing_until_it_is_woken() -> None:
    story = active(Part.STEADY)
    story.node.fall_asleep()
    story.hear("NodeLivenessExpired")
    assert story.topics(100) == []
    story.node.wake(story.now)
    (sent,) = story.sent()
    assert (sent.topic, sent.body["epoch"]) == (INTROSPECTION, 2)
