"""What is wrong with a schedule is said with its place and what would be right."""

import pytest

from podium.errors import InvalidId, InvalidSchedule
from podium.schedules.checking import (
    check_cron,
    check_definition,
    check_has_times,
    check_schedule_id,
    check_timezone,
    describe_cron,
)
from podium.schedules.inputs import inputs_at
from podium.schedules.schedule import Cron, Definition, Every, Once, Times
from tests.unit.schedules.oracle import EXPRESSIONS

NOON = "2026-01-01T12:00:00.000000Z"


def definition(times: Times = Once(NOON), **fields: object) -> Definition:  # noqa: B008
    return Definition(times=times, plan_id="p", plan_version="1", plan_sha256="", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("30 25 * * *", "cron, character 4: '25' is not a valid hour: use 0-23"),
        ("60 1 * * *", "cron, character 1: '60' is not a valid minute"),
        ("0  0   32 * *", "cron, character 8: '32' is not a valid day-of-month"),
        ("0 0 1 13 *", "cron, character 7: '13' is not a valid month"),
        ("0 0 * * MOON", "cron, character 9: 'MOON' is not a valid day-of-week"),
        ("0 0 * * 1L/2", "'1L/2' is not a valid day-of-week"),
        ("0 0 31 2 *", "cron, character 5: '31' is not a valid day-of-month: no such month has this day"),
        ("*/0 * * * *", "'*/0' is not a valid minute"),
        ("0 0 * *", "has 4 fields: write five"),
        ("0 0 * * * *", "has 6 fields: write five"),
        ("@daily", "has 1 field: write five"),
        ("", "has 0 fields"),
        ("² * * * *", "is not an expression"),
        ("1" * 5000 + " * * * *", "is not an expression"),
        ("1/" * 90 + "1 * * * *", "is not a valid minute"),
    ],
)
def test_a_cron_expression_is_refused_with_the_place(expression: str, message: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check_cron(expression)
    assert message in str(refused.value)


def test_the_place_is_marked_below_the_expression() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check_cron("1 1 1  99 1")
    assert str(refused.value).splitlines()[1:] == ["   1 1 1  99 1", "          ^^"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_valid_is_accepted_and_described(expression: str) -> None:
    check_cron(expression)
    assert describe_cron(expression)


@pytest.mark.parametrize(
    "name", ["Europe/Berln", "europe/berlin", "../../etc/passwd", "/etc/localtime", "", "MEZ "]
)
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchedule, match="is not known"):
        check_timezone(name)


def test_a_time_zone_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(InvalidSchedule, match="Did you mean 'Europe/Berlin'"):
        check_timezone("Europe/Berln")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (definition(Every(0, NOON)), "every 0 s is not between 1 s"),
        (definition(Every(10**9, NOON)), "every 1000000000 s"),
        (definition(jitter=-1), "jitter -1 s"),
        (definition(jitter=86_401), "jitter 86401 s"),
        (definition(catch_up=-1), "catch_up -1 s"),
        (definition(Once("9999-01-01T00:00:00.000000Z")), "at 9999"),
        (definition(start=NOON, end=NOON), "is not after start"),
        (definition(Cron("0 0 * * *", "Mars/Base")), "timezone 'Mars/Base'"),
    ],
)
def test_a_definition_out_of_its_limits_is_refused(given: Definition, message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        check_definition(given)


def test_a_schedule_without_a_time_in_the_future_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="no time in the future"):
        check_has_times(definition(), NOON)


@pytest.mark.parametrize("schedule_id", ["", "a b", "a" * 97, "a|b", "-a"])
def test_an_id_that_could_not_be_part_of_a_request_id_is_refused(schedule_id: str) -> None:
    with pytest.raises(InvalidId):
        check_schedule_id(schedule_id)


def test_inputs_name_the_time_that_the_run_is_for() -> None:
    given = definition(
        Cron("30 2 * * *", "Europe/Berlin"),
        inputs={
            "a": "x ${schedule.time} ${ schedule.id }",
            "b": ["${schedule.local_time}", 1],
            "c": {"d": "${schedule.date}"},
        },
    )
    assert inputs_at(given, "nightly", "2026-03-29T23:30:00.000000Z") == {
        "a": "x 2026-03-29T23:30:00Z nightly",
        "b": ["2026-03-30T01:30:00+02:00", 1],
        "c": {"d": "2026-03-30"},
    }


def test_an_unknown_name_in_an_input_is_refused_with_its_place() -> None:
    with pytest.raises(
        InvalidSchedule, match=r"inputs\.a\[1\]\.b, character 3: '\$\{schedule\.tim\}' is not known"
    ):
        inputs_at(definition(inputs={"a": [0, {"b": "x ${schedule.tim}"}]}), "nightly", NOON)


def test_what_an_input_is_filled_with_is_not_read_again() -> None:
    assert inputs_at(definition(inputs={"a": "${schedule.id}"}), "${x}", NOON) == {"a": "${x}"}
