"""Patterns of modules are compiled when they are first used."""

import re
from typing import Any

import pytest

from podium.patterns import lazy_pattern


def test_a_lazy_pattern_does_what_a_compiled_one_does() -> None:
    lazy = lazy_pattern(r"(?P<letter>[a-z])[0-9]", re.IGNORECASE)
    for _ in range(2):
        found = lazy.search("--A1--")
        assert found is not None
        assert found["letter"] == "A"
        assert lazy.fullmatch("a1 ") is None
        assert lazy.sub("x", "a1b2") == "xx"
    assert lazy.pattern == r"(?P<letter>[a-z])[0-9]"
    assert lazy_pattern(rb"[0-9]").findall(b"a1b2") == [b"1", b"2"]


def test_a_lazy_pattern_is_compiled_at_its_first_use_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = re.compile

    def counted(source: Any, flags: int = 0) -> re.Pattern[Any]:
        compiled.append(source)
        return original(source, flags)

    monkeypatch.setattr(re, "compile", counted)
    lazy = lazy_pattern("a+")
    assert compiled == []
    assert lazy.match("aa")
    assert lazy.match("b") is None
    assert compiled == ["a+"]
