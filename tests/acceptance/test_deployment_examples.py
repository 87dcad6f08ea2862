"""The unit and the container file of `examples/deploy`: systemd takes the unit, and neither runs as root."""

import json
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from podium.cli.up import up

FOLDER = Path(__file__).parents[2] / "examples" / "deploy"
UNIT = FOLDER / "podium.service"


def service() -> dict[str, str]:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """With a program that is there, and with this user: neither is installed on the machine of the tests."""
    text = UNIT.read_text().replace("/opt/podium/bin/podium", sys.executable)
    kept = [line for line in text.splitlines() if not line.startswith(("User=", "Group="))]
    copy = tmp_path / "podium.service"
    copy.write_text("\n".join(kept))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    ours = [line for line in done.stderr.splitlines() if "podium.service" in line]
    assert (ours, done.returncode) == ([], 0)


def test_the_unit_runs_as_a_user_of_its_own_on_a_read_only_root() -> None:
    found = service()
    assert (found["User"], found["ProtectSystem"], found["NoNewPrivileges"]) == ("podium", "strict", "yes")
    assert found["CapabilityBoundingSet"] == ""
    # Codes with which `podium up` would only end again.
    assert found["RestartPreventExitStatus"].split() == ["64", "65", "77", "78"]
    program, command, *options = shlex.split(found["ExecStart"])
    assert (program, command) == ("/opt/podium/bin/podium", "up")
    up.make_parser(up.context_class(up)).parse_args(options)


def test_the_image_runs_as_a_user_without_rights() -> None:
    lines = (FOLDER / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert [rest for name, rest in steps if name == "USER"] == ["10001:10001"]
    assert steps.index(["USER", "10001:10001"]) > max(n for n, one in enumerate(steps) if one[0] == "RUN")
    command = json.loads(next(rest for name, rest in steps if name == "CMD"))
    assert command[0] == "up"
    up.make_parser(up.context_class(up)).parse_args(command[1:])
    (base,) = [rest for name, rest in steps if name == "FROM"]
    assert base.partition(":")[2], "a fixed version"
