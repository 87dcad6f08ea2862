"""docs/access.md lists every operation with its role, and its example is valid."""

import re
from pathlib import Path
from typing import get_args

import pytest

from podium.access.operations import NAMED, SIGNALS, OperationName
from podium.access.rate_limits import RateLimits
from podium.configuration import configuration

PAGE = Path(__file__).parents[2] / "docs" / "access.md"


def test_the_page_lists_every_operation_with_its_role() -> None:
    rows = re.findall(r"^\| `([a-z]+\.[A-Za-z_-]+)` \| ([a-z]+) \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [(one.name, one.role.value) for one in (*NAMED.values(), *SIGNALS.values())]


def test_every_operation_has_its_name() -> None:
    assert set(get_args(OperationName)) == NAMED.keys()
    assert all(one.name == name for name, one in NAMED.items())


def test_the_rules_of_the_page_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "config.yaml"
    file.write_text(example)
    file.chmod(0o600)
    monkeypatch.setenv("PODIUM_CONFIG", str(file))
    assert configuration().access is not None


def test_the_parts_of_the_configuration_on_the_page_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    parts = re.findall(r"```yml\n# part of config.yaml\naccess:\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "config.yaml"
    file.write_text(example + "".join(parts))
    file.chmod(0o600)
    monkeypatch.setenv("PODIUM_CONFIG", str(file))
    settings = configuration().access
    assert settings is not None
    assert settings.oidc is not None
    assert list(settings.oidc.rules.groups) == ["release-team", "platform"]
    # The page shows the defaults.
    assert settings.rate_limits == RateLimits()
