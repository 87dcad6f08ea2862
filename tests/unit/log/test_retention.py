"""How long an artifact is kept is decided by its kind, when it is made."""

from datetime import UTC, datetime, timedelta, timezone

from podium.log.retention import RetentionPolicy, expiry

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
POLICY = RetentionPolicy(
    by_kind={"log-bundle": timedelta(days=30), "dbt-manifest": None}, default=timedelta(days=90)
)


def test_a_kind_with_a_time_of_its_own_expires_after_it() -> None:
    assert expiry("log-bundle", NOON, POLICY) == "2026-01-31T12:00:00.000000Z"


def test_every_other_kind_expires_after_the_default() -> None:
    assert expiry("dbt-run-results", NOON, POLICY) == "2026-04-01T12:00:00.000000Z"


def test_a_kind_may_be_kept_for_ever_whatever_the_default() -> None:
    assert expiry("dbt-manifest", NOON, POLICY) is None


def test_without_a_policy_everything_is_kept_for_ever() -> None:
    assert expiry("log-bundle", NOON, RetentionPolicy()) is None


def test_the_moment_is_told_in_utc() -> None:
    noon_in_tokyo = datetime(2026, 1, 1, 12, 0, tzinfo=timezone(timedelta(hours=9)))
    assert expiry("log-bundle", noon_in_tokyo, POLICY) == "2026-01-31T03:00:00.000000Z"
