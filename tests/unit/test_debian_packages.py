"""Packages that tests need are installed on a new machine under CI, and nowhere else."""

import os
import shutil
from collections.abc import Sequence

import pytest

from services import debian


class _Machine:
    """Answers with these exit codes, one for each command."""

    def __init__(self, *codes: int) -> None:
        self.commands: list[str] = []
        self._codes = list(codes)

    def run(self, command: Sequence[str]) -> int:
        self.commands.append(" ".join(command[:2]))
        return self._codes.pop(0)


@pytest.fixture(autouse=True)
def _ci_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def test_packages_are_installed() -> None:
    machine = _Machine(0)
    debian.install(["podman"], lambda: False, machine.run)
    assert machine.commands == ["apt-get install"]


def test_a_machine_without_lists_of_packages_fetches_them() -> None:
    machine = _Machine(100, 0, 0)
    debian.install(["podman"], lambda: False, machine.run)
    assert machine.commands == ["apt-get install", "apt-get update", "apt-get install"]


def test_what_another_process_has_installed_is_not_installed_again() -> None:
    machine = _Machine()
    debian.install(["podman"], lambda: True, machine.run)
    assert machine.commands == []


def test_nothing_is_installed_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine()
    monkeypatch.delenv("CI")
    debian.install(["podman"], lambda: False, machine.run)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    debian.install(["podman"], lambda: False, machine.run)
    assert machine.commands == []
