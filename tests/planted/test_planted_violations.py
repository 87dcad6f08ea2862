"""Every rule's tests notice when the rule is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.violations import VIOLATIONS, Violation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: f"{violation.rule}: {violation.what}")
def test_a_planted_violation_is_noticed_by_the_tests_of_its_rule(
    violation: Violation, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    planted = tmp_path / "src" / "podium" / violation.file
    text = planted.read_text() if violation.old else ""
    assert not violation.old or text.count(violation.old) == 1, (
        f"adapt the violation: {violation.old!r} is not there exactly once"
    )
    planted.write_text(text.replace(violation.old, violation.new) if violation.old else violation.new)

    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    found = subprocess.run(
        [*command, "--rule", violation.rule, "tests/unit/nodes"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # 1 is "tests ran and some failed"; an error in collecting them would prove nothing.
    assert found.returncode == 1, found.stdout[-2000:]
    assert "failed" in found.stdout
    assert "error" not in found.stdout.splitlines()[-1]
