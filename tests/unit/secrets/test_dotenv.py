"""A .env file means what it shows, and its errors tell where and never what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.ports.secrets import SecretProviderFailed
from podium.secrets.dotenv import parse_dotenv


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=value", "value"),
        ("export KEY=value", "value"),
        ("export\tKEY = value", "value"),
        ("  KEY=value  ", "value"),
        ("KEY=value # comment", "value"),
        ("KEY=val#ue", "val#ue"),
        ("KEY=two words", "two words"),
        ("KEY=a=b=c", "a=b=c"),
        ("KEY=$HOME `id`", "$HOME `id`"),
        ("KEY=it's", "it's"),
        ("KEY=", ""),
        ("KEY= # nothing", ""),
        ("KEY=''", ""),
        ("KEY='a # b'", "a # b"),
        (r"KEY='a\nb'", r"a\nb"),
        ("KEY='a' # comment", "a"),
        ('KEY="a b"', "a b"),
        (r'KEY="a\nb\tc\r"', "a\nb\tc\r"),
        (r'KEY="say \"hi\""', 'say "hi"'),
        (r'KEY="C:\\new \$HOME"', r"C:\new $HOME"),
        ("KEY=value\r", "value"),
        ("KEY=a\u2028b", "a\u2028b"),
    ],
)
def test_a_line_means_what_it_shows(line: str, value: str) -> None:
    assert parse_dotenv(f"# first\n\n{line}\nLAST=1\n", ".env") == {"KEY": value, "LAST": "1"}


def test_a_byte_order_mark_is_not_part_of_the_first_name() -> None:
    assert parse_dotenv("\ufeffKEY=value\n", ".env") == {"KEY": "value"}


def test_every_wrong_line_is_told_with_its_place_and_nothing_of_its_content() -> None:
    lines_in = [
        "GOOD=hunter22",
        "hunter22",
        "KEY-WITH-DASH=hunter22",
        "1KEY=hunter22",
        "OPEN='hunter22",
        'OPEN="hunter22',
        "AFTER='x' hunter22",
        r'ESCAPE="\hunter22"',
        "GOOD=hunter22",
    ]
    with pytest.raises(SecretProviderFailed) as told:
        parse_dotenv("\n".join(lines_in), "conf/.env")
    lines = str(told.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"conf/.env:{number}" for number in range(2, 10)]
    assert lines[0] == (
        "conf/.env:2: this is not an assignment; write NAME=value, with letters, digits and _ in the name"
    )
    assert lines[-1] == "conf/.env:9: GOOD is set a second time; remove one of the two"
    assert "hunter22" not in str(told.value)


@given(st.text(st.characters(exclude_characters="\n'\0", exclude_categories=["Cs"])))
def test_between_single_quotes_everything_stands_for_itself(value: str) -> None:
    assert parse_dotenv(f"KEY='{value}'", ".env") == {"KEY": value}


@given(st.text())
def test_any_text_is_either_read_or_refused(text: str) -> None:
    told = ""
    try:
        parse_dotenv(text, ".env")
    except SecretProviderFailed as error:
        told = str(error)
    assert all(line.startswith(".env:") for line in told.splitlines())
