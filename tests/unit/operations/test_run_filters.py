"""What a filter of runs means, and what is said about one that means nothing."""

from datetime import UTC, datetime

import pytest

from podium.log.labels import InvalidLabel, parse_labels
from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.operations.run_filters import InvalidFilter, RunFilter, parse_filter

NOW = datetime(2026, 5, 10, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", RunQuery()),
        ("   ", RunQuery()),
        ("status=FAILED", RunQuery(statuses=frozenset({RunStatus.FAILED}))),
        (
            "status=failed,CANCELLED  plan=nightly",
            RunQuery(statuses=frozenset({RunStatus.FAILED, RunStatus.CANCELLED}), plan_id="nightly"),
        ),
        (
            "project=web environment=prod pool=gpu",
            RunQuery(project_id="web", environment_id="prod", pool="gpu"),
        ),
        (
            'label.team=web label.app/tier="front end"',
            RunQuery(labels=(("team", "web"), ("app/tier", "front end"))),
        ),
        ("text~'it is'", RunQuery(text="it is")),
        ("text~a=b", RunQuery(text="a=b")),
        (
            "created>=2026-01-01 created<7d",
            RunQuery(
                created_from="2026-01-01T00:00:00.000000Z", created_before="2026-05-03T12:00:00.000000Z"
            ),
        ),
    ],
)
def test_a_filter_asks_for_what_it_says(text: str, query: RunQuery) -> None:
    assert parse_filter(text, NOW) == RunFilter(query)


def test_a_filter_narrows_what_was_asked_for_already() -> None:
    base = RunQuery(plan_id="nightly", limit=7)
    assert parse_filter("pool=gpu needs=person", NOW, base) == RunFilter(
        RunQuery(plan_id="nightly", pool="gpu", limit=7), "person"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FAILED", "column 1 of the filter: 'FAILED' is not a term; write status=FAILED,CANCELLED, plan=ID"),
        ("plan=a stats=b", "column 8 of the filter: unknown name 'stats'. Did you mean 'status'?"),
        ("status=DONE", "column 1 of the filter: unknown status 'DONE'; statuses are PENDING"),
        ("status~FAILED", "column 1 of the filter: write `status=`"),
        ("created>7d", "column 1 of the filter: write `created>=` or `created<`"),
        ("created>=soon", "column 1 of the filter: 'soon' is not a time: write 2026-01-31"),
        ("  plan='a b'", "column 3 of the filter: 'a b' is not a valid id"),
        ("plan=", "column 1 of the filter: `plan=` needs a value"),
        ("plan=a plan=b", "column 8 of the filter: `plan=` is given twice"),
        ("label.team=a label.team=b", "column 14 of the filter: `label.team=` is given twice"),
        ("label.=a", "column 1 of the filter: '' is not a valid name of a label"),
        ("label.team=", "column 1 of the filter: the label 'team' cannot be ''"),
        ("label.team~a", "column 1 of the filter: write `label.team=VALUE`"),
        ("needs=money", "column 1 of the filter: write `needs=approval` or `needs=person`"),
        ("plan=a text~'x", "column 8 of the filter"),
        ("x" * 3000, "a filter has at most 2000 characters"),
    ],
)
def test_a_filter_that_means_nothing_says_where_and_what_would_be_right(text: str, problem: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        parse_filter(text, NOW)
    assert problem in str(refused.value)


def test_labels_are_given_as_name_and_value() -> None:
    assert parse_labels(["team=web", "note=a=b"]) == {"team": "web", "note": "a=b"}
    for given in (["team"], ["team=a", "team=b"], ["=x"], ["team="]):
        with pytest.raises(InvalidLabel):
            parse_labels(given)
