"""The commands that `--help` shows as examples run as they are shown, in a folder that has what they name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from podium.cli.app import cli
from tests.acceptance.podium import Place
from tests.acceptance.test_hints import examples

ROOT = Path(__file__).parents[2]
# Beginnings of the examples that cannot be run here, and why.
NOT_RUN = {
    "podium up": "serves until it is stopped",
    "podium worker": "serves until it is stopped",
    "podium bus listen": "serves until it is stopped",
    "podium registration": "needs Consul and PostgreSQL, or serves until it is stopped",
    "podium relay --bus kafka": "needs a broker",
    "podium doctor --tls-cert": "names a certificate outside the folder",
    "podium publish": "names a place outside the folder, or a bucket",
    "podium run --plan": "needs a published plan",
    "podium hook add": "needs a published plan",
    "podium run release.yaml --input version=1.4.0 --server": "needs a server",
    "podium audit verify --tenant acme --expect-head": "has a placeholder",
    "podium verify": "needs a key in the configuration file",
    "podium run release.yaml --signature": "needs a key in the configuration file",
    "podium signal nightly-1 RETRY_RUN": "continues a run, which waits for a person",
    "podium token rm": "names a token by an id that cannot be chosen",
    "podium schedule add launch": "names a time that will have passed",
    "podium events RUN --json | jq": "jq may not be installed",
}
ENDLESS = frozenset({"podium relay --bus jsonl:events.jsonl"})
# What has to happen before.
FIRST = {
    "podium audit verify audit.jsonl": "podium audit new-key audit.key && podium audit new-key audit-2025.key"
    " && podium audit export -o audit.jsonl",
    "podium limits rm": "podium limits set plan nightly 1",
    "podium schedule show": "podium schedule add nightly release.yaml --every 1h",
    "podium schedule backfill": "podium schedule add nightly release.yaml --cron '0 2 * * *'",
    "podium sign release.yaml": "podium sign --new-key release-2026.pem",
    "podium store rebuild": "rm runs/podium.db*",
}
EXAMPLES = [
    one for one in sorted(set(examples(cli))) if not one.startswith(tuple(NOT_RUN)) and one not in ENDLESS
]
FLOW = (
    'version: "2.0"\nname: {name}\ninputs: {{version: {{type: string, default: "1"}}}}\nsteps:\n  - {step}\n'
)
STEPS = {
    "release": "{name: Deploy, command: [echo, deployed]}",
    "asks": "{name: Ask, approval: Now?}\n  - {name: Deploy, command: [echo, deployed]}",
    "fails": "{name: Deploy, command: [test, -f, Makefile]}",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Place(tmp_path_factory.mktemp("examples"))
    folder = place.folder
    for name, step in STEPS.items():
        (folder / f"{name}.yaml").write_text(FLOW.format(name=name, step=step))
    place.run("run", "fails.yaml", "--run-id", "RUN", code=1)
    place.run("run", "asks.yaml", "--run-id", "nightly-1", "--no-wait", code=5)
    place.run("run", "release.yaml", "--run-id", "nightly-3f2a")
    (folder / "Makefile").write_text("all:\n\techo built\n")
    (folder / "retention.yaml").write_text("completed: 30d\n")
    for name in ("check.yaml", "workflows/release.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "release.yaml", folder / name)
    (folder / ".github" / "workflows").mkdir(parents=True)
    (folder / ".github" / "workflows" / "ci.yml").write_text(
        "on: push\njobs: {build: {runs-on: ubuntu-latest, steps: [{run: make}]}}\n"
    )
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_a_help_text_runs_as_it_is_shown(example: str, prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(prepared, folder, symlinks=True)
    first = next((before for start, before in FIRST.items() if example.startswith(start)), "true")
    done = subprocess.run(
        ["sh", "-c", f"{{ {first}; }} > first.out 2>&1; {example}"],
        cwd=folder,
        env={
            **Place(folder).environment,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CHAT_HOOK": "a-secret-of-the-chat",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (done.stderr, (folder / "first.out").read_text())


def test_every_exception_is_about_an_example() -> None:
    shown = set(examples(cli))
    for start in (*NOT_RUN, *FIRST, *ENDLESS):
        assert any(one.startswith(start) for one in shown), start
