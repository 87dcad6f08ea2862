"""Which steps a rerun from a step neither repeats nor waits for, although they do not precede it."""

import pytest

from podium.log.events import EventRecord, EventType
from podium.runtime.beside import beside, completed_beside, same_visits
from podium.runtime.continued import Continued
from tests.unit.machine.hosting import START, plan_of, record_of

PLAN = """
steps:
  - {name: First, command: [a]}
  - name: P
    parallel:
      - {name: X, command: [a]}
      - name: Y
        steps: [{name: One, command: [a]}, {name: Two, command: [a]}]
  - name: L
    for_each:
      items: [1, 2, 3]
      parallel: true
      steps: [{name: Build, command: [a]}, {name: Test, command: [a]}]
  - name: S
    for_each:
      items: [1, 2, 3]
      steps: [{name: Build, command: [a]}]
  - name: Race
    join: {wait_for: any}
    parallel:
      - {name: RX, command: [a]}
      - name: RY
        parallel: [{name: ROne, command: [a]}, {name: RTwo, command: [a]}]
  - name: G
    steps:
      - {name: A, command: [a]}
      - {name: B, command: [a]}
      - {name: C, command: [a], depends_on: [A]}
      - {name: D, command: [a], depends_on: [C, B]}
"""


@pytest.mark.parametrize(
    ("step", "path", "expected"),
    [
        ("P/X", "P/Y/One", True),
        ("P/Y/Two", "P/X", True),
        ("P/Y/Two", "P/Y/One", False),
        ("P/X", "P/X", False),
        ("P/X", "P#2/Y/One", False),
        ("P#2/X", "P#2/Y/One", True),
        ("P/X", "First", False),
        ("L[1]/Test", "L[0]/Test", True),
        ("L[1]/Test", "L[12]/Build", True),
        ("L[1]/Test", "L[1]/Build", False),
        ("L[1]/Test", "L#2[0]/Build", False),
        ("S[1]/Build", "S[0]/Build", False),
        ("Race/RX", "Race/RY/ROne", False),
        ("Race/RY/ROne", "Race/RY/RTwo", False),
        ("G/A", "G/B", True),
        ("G/A", "G/C", False),
        ("G/A", "G/D", False),
        ("G/C", "G/A", True),
    ],
)
def test_a_step_is_beside_another_if_neither_can_wait_for_the_other(
    step: str, path: str, expected: bool
) -> None:
    is_beside = beside(plan_of(PLAN), step)
    assert (is_beside is not None and is_beside(path)) is expected


def _end(seq: int, event_type: str, attempt: int, code: str = "EXIT_CODE") -> EventRecord:
    failed = {"error": {"category": "USER", "code": code, "message": "", "retryable": True}}
    payload = failed if event_type == EventType.STEP_FAILED else {"exitCode": 0}
    return record_of(seq, event_type, "P/X", attempt, payload, START)


def _answers(records: list[EventRecord], reached: int, text: str = PLAN) -> list[tuple[int, int]]:
    continued = Continued()
    for record in records:
        continued.note(record)
    ends = [record for record in records if record.step_id is not None]
    is_same_visit = same_visits(plan_of(text), continued)
    return [(attempt, end.run_seq) for attempt, end in completed_beside(ends, reached, is_same_visit)]


def test_a_step_that_succeeded_on_a_further_try_is_answered_at_its_first() -> None:
    records = [
        _end(5, EventType.STEP_FAILED, 1),
        _end(6, EventType.STEP_RETRY_SCHEDULED, 1),
        _end(7, EventType.STEP_COMPLETED, 2),
    ]
    assert _answers(records, reached=3) == [(1, 7)]


def test_tries_that_had_failed_before_keep_their_numbers() -> None:
    records = [
        _end(5, EventType.STEP_FAILED, 1),
        _end(6, EventType.STEP_RETRY_SCHEDULED, 1),
        _end(9, EventType.STEP_COMPLETED, 2),
    ]
    assert _answers(records, reached=8) == [(2, 9)]


def test_a_stopped_attempt_is_answered_by_the_one_that_completed_after_a_resume() -> None:
    records = [_end(5, EventType.STEP_FAILED, 1, "CANCELLED"), _end(9, EventType.STEP_COMPLETED, 2)]
    assert _answers(records, reached=3) == [(1, 9)]


def test_each_visit_has_its_own_completion() -> None:
    records = [
        _end(5, EventType.STEP_COMPLETED, 1),
        _end(6, EventType.STEP_SKIPPED, 2),
        _end(7, EventType.STEP_COMPLETED, 3),
    ]
    assert _answers(records, reached=3) == [(1, 5), (3, 7)]


def test_a_step_that_failed_runs_again() -> None:
    records = [_end(5, EventType.STEP_FAILED, 1), _end(7, EventType.STEP_COMPLETED, 2)]
    assert _answers(records, reached=3) == []


FAILED_AND_REPEATED = [
    _end(5, EventType.STEP_FAILED, 1),
    record_of(6, EventType.RUN_REOPENED, None, 2, {}, START),
    _end(7, EventType.STEP_COMPLETED, 2),
]


def test_a_step_that_failed_and_completed_after_a_resume_is_answered_with_that() -> None:
    assert _answers(FAILED_AND_REPEATED, reached=3) == [(1, 7)]


def test_a_step_whose_failure_led_elsewhere_runs_again_although_it_completed_after_a_resume() -> None:
    handled = PLAN.replace("{name: X, command: [a]}", "{name: X, command: [a], allow_failure: true}", 1)
    assert handled != PLAN
    assert _answers(FAILED_AND_REPEATED, reached=3, text=handled) == []


def _continued(path: str, *attempts: int) -> Continued:
    continued = Continued()
    for number in attempts:
        start = record_of(10 * number, EventType.STEP_STARTED, path, number, {"reopened": True}, START)
        continued.note(start)
    return continued


@pytest.mark.parametrize(
    ("path", "since", "expected"),
    [
        ("L#2[4]/Build", 0, "L[4]/Build"),
        ("L#3[4]/Build", 0, "L[4]/Build"),
        ("L#4[4]/Build", 0, "L#2[4]/Build"),
        ("L#3[4]/Build", 25, "L#2[4]/Build"),
        ("L[0]/Build", 0, "L[0]/Build"),
        ("M#2[4]/Build", 0, "M#2[4]/Build"),
    ],
)
def test_what_started_in_a_continued_loop_belongs_to_the_visit_that_was_continued(
    path: str, since: int, expected: str
) -> None:
    assert _continued("L", 2, 3).uninterrupted(path, since) == expected


def test_numbers_of_composites_inside_of_continued_ones_are_counted_for_themselves() -> None:
    assert _continued("L#2[4]/P", 2).uninterrupted("L#2[4]/P#2/X") == "L#2[4]/P/X"
