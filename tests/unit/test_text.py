"""Credentials in addresses are masked wherever a text is shown."""

import asyncio

import pytest

from podium.text import reason_of, reason_with_file, typed_reason, without_credentials


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://podium:hunter2@db:5432/prod", "postgresql://podium:***@db:5432/prod"),
        ("postgresql://podium:hun@ter/2@db/prod", "postgresql://podium:***@db/prod"),
        ("postgresql://:hunter2@db/prod", "postgresql://:***@db/prod"),
        ("'postgrsql://u:hun'ter2@db' is none", "'postgrsql://u:***@db' is none"),
        ("redis+tls://u:p@h and amqp://v:q@k", "redis+tls://u:***@h and amqp://v:***@k"),
        ("https://ghp_token@github.com/a.git", "https://***@github.com/a.git"),
        ("GET HTTP://user:pass@host/x@y failed", "GET HTTP://***@host/x@y failed"),
        ("https://host/?a=1&access_token=abc&b=2", "https://host/?a=1&access_token=***&b=2"),
        ("postgresql://db/x?user=u&password=hunter2", "postgresql://db/x?user=u&password=***"),
        ("postgresql://u:a@h/x?sslpassword=b", "postgresql://u:***@h/x?sslpassword=***"),
    ],
)
def test_credentials_are_masked(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://podium@db:5432/prod",
        "http://host:8080/users/ann@example.com",
        "https://host/?q=a@b&page=2",
        "mail ann@example.com about https://host:443/",
        "password=x without an address",
        "runs/podium.db",
        "",
    ],
)
def test_what_holds_no_credential_stays_as_it_is(text: str) -> None:
    assert without_credentials(text) == text


def test_an_error_always_has_a_reason() -> None:
    assert reason_of(ValueError("no number")) == "no number"
    assert reason_of(FileNotFoundError(2, "No such file or directory", "x")) == "No such file or directory"
    assert reason_of(ConnectionResetError()) == "connection reset error"
    wrapped = RuntimeError()
    wrapped.__cause__ = ConnectionResetError(104, "Connection reset by peer")
    assert reason_of(wrapped) == "Connection reset by peer"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "TimeoutError"),
        (ConnectionError(), "ConnectionError"),
        (asyncio.CancelledError(), "CancelledError"),
        (ValueError("not a number"), "ValueError: not a number"),
    ],
)
def test_an_error_without_a_text_is_named_by_its_type_alone(error: BaseException, said: str) -> None:
    assert typed_reason(error) == said


def test_a_file_that_was_refused_is_named_with_the_reason() -> None:
    assert reason_with_file(OSError(13, "Permission denied", "a/b")) == "'a/b': Permission denied"
    assert reason_with_file(OSError()) == "os error"
