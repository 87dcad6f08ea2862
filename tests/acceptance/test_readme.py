"""What the README tells people to type works as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_there_is_something_to_try() -> None:
    assert blocks("sh")
    assert blocks("python")


@pytest.mark.parametrize("script", blocks("sh"))
def test_the_commands_run(script: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if "pipeline.yaml" in script:
        assert "pipeline.yaml: valid, 4 steps" in done.stdout
        assert "pipeline 1.0.0 (parallel): completed, 4 actions" in done.stdout
    elif "hello.yaml" in script:
        assert "hello.yaml: valid, 4 steps" in done.stdout
        assert "3 cities" in done.stdout
        assert re.search(r"\| Try hard \| ok \| \d+\.\d \| 2 \|", done.stdout)
    elif "podium init" in script:
        assert "mend.yaml: valid, 3 steps" in done.stdout
        assert (tmp_path / "mend.svg").exists()
    else:
        assert "the store is sound" in done.stdout


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_runs(code: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("completed ['Extract Source A'", "completed 2\n"))


def test_the_make_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"make ([a-z]+)", README)) - {"and"}
    assert {"demo", "test"} <= named
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)]+)\)", README))
def test_the_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
