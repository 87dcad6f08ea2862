"""Idempotency keys: the published vectors, and what keeps them apart."""

import pytest

from podium.log.keys import key_v1, slot_of

RUN = "6f9619ff-8b86-4011-b42d-00c04fc964ff"


@pytest.mark.parametrize(
    ("slot", "attempt", "event_type", "version", "key"),
    [
        (
            "Deploy Services[2]/Build Image",
            1,
            "StepCompleted",
            "1.0.0",
            "ca3d7df9f6e12188d27db7c66cf1bca6c3b847714d59049d51ff0124f5241b0d",
        ),
        ("RUN", 2, "RunPaused", "1.0.0", "7a961bed83c9cec4f7d6ff03792ee2313ac4bd7aa4162bb0a4b9d23d4f08c804"),
        (
            "Prüfe Größe",
            10,
            "StepFailed",
            "2.1.0",
            "5078a11d9603a09fa07da44e4659a7570b8c16aaa479fd0c1d45d2e2cb72f796",
        ),
    ],
)
@pytest.mark.rule("ES06")
def test_the_keys_of_events_equal_the_published_vectors(
    slot: str, attempt: int, event_type: str, version: str, key: str
) -> None:
    assert key_v1(RUN, slot, attempt, event_type, version) == key


def test_text_is_taken_verbatim() -> None:
    texts = ["a", "A", " a", "a ", "\u00e9", "e\u0301"]
    assert len({key_v1(RUN, text, 1, "StepStarted", "1") for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("event_type", "step_id", "subject", "slot"),
    [
        ("RunPaused", None, None, "RUN"),
        ("StepStarted", "a/b", None, "a/b"),
        ("StepRetryScheduled", "a", None, "a"),
        ("SignalAccepted", None, "sig-1", "sig-1"),
        ("TimerFired", None, "a|1|backoff|2", "a|1|backoff|2"),
        ("ProbeAnswered", None, "a|1|when", "a|1|when"),
        ("BudgetCharged", None, "a", "a"),
        ("AlertRaised", None, "INVALID_TRANSITION:7", "INVALID_TRANSITION:7"),
        ("MoonRose", None, None, "RUN"),
    ],
)
def test_what_an_event_is_about(event_type: str, step_id: str | None, subject: str | None, slot: str) -> None:
    assert slot_of(event_type, step_id=step_id, subject=subject) == slot


def test_an_event_that_recurs_must_say_what_it_is_about() -> None:
    with pytest.raises(ValueError, match="SignalAccepted needs a subject"):
        slot_of("SignalAccepted")
