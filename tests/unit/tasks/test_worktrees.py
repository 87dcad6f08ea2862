"""Agents with a git worktree of their own: what they see, what is kept of it, and what is left of it."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from podium.ports.engine import Driving
from podium.runtime.tasks.worktrees import NoWorktree
from tests.unit.tasks.engine import Ended, appears, drive, run

_AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")


@pytest.fixture(autouse=True)
def no_settings_of_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *_AUTHOR, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=30
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.txt").write_text("one\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("two\n")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def agent(script: str, name: str = "A", **keys: Any) -> dict[str, Any]:
    """An agent that is a shell script; it gets it as its prompt."""
    return {
        "name": name,
        "provider": "mine",
        "prompt": script.replace("${", "$${"),
        "workspace": "worktree",
        **keys,
    }


SCRIPTS = {"mine": {"argv": ["sh", "-c", "sh -e && echo done"]}}


def work(folder: Path, *steps: Any, **options: Any) -> Ended:
    return run(folder, *steps, **{"providers": SCRIPTS, **options})


def diff(ended: Ended, path: str = "A") -> str:
    name: str = ended.step(path)["diff"]
    return (ended.directory / "artifacts" / name).read_text()


def nothing_is_left(ended: Ended, repository: Path) -> None:
    assert [path.name for path in (ended.directory / "worktrees").iterdir()] == [".gitignore"]
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--porcelain", "--untracked-files=no") == ""


def test_an_agent_changes_its_worktree_and_not_the_workspace(tmp_path: Path, repository: Path) -> None:
    script = "pwd > where; echo more >> a.txt; rm sub/b.txt; printf '\\0\\377' > bin; echo x > ignored"
    ended = work(tmp_path, agent(script))
    assert ended.exit_code == 0
    assert (repository / "a.txt").read_text() == "one\n"
    assert not (repository / "where").exists()
    told = diff(ended)
    assert "+more" in told
    assert "deleted file mode 100644" in told
    assert "GIT binary patch" in told
    assert f"+{ended.directory}/worktrees/" in told
    assert "ignored" not in told
    nothing_is_left(ended, repository)
    # What is kept is the same work.
    git(repository, "apply", str(ended.directory / "artifacts" / ended.step("A")["diff"]))
    assert (repository / "bin").read_bytes() == b"\0\xff"
    assert (repository / "a.txt").read_text() == "one\nmore\n"
    assert not (repository / "sub" / "b.txt").exists()


def test_the_diff_is_an_artifact_that_later_steps_can_name(tmp_path: Path, repository: Path) -> None:
    ended = work(
        tmp_path,
        agent("echo more >> a.txt"),
        {"name": "B", "command": ["git", "apply", "${run.artifacts}/${steps.A.diff}"]},
        {"name": "C", "command": ["cat"], "input_file": "${steps.A.diff}"},
    )
    assert ended.exit_code == 0
    assert (repository / "a.txt").read_text() == "one\nmore\n"
    assert "+more" in ended.step("C")["output"]
    (kept,) = ended.step("A")["artifacts"]
    assert kept["path"] == ended.step("A")["diff"] == "diffs/A.1.diff"
    assert kept["kind"] == "diff"
    assert len(kept["sha256"]) == 64
    assert ended.state["steps"]["A"]["diff"] == "diffs/A.1.diff"


def test_branches_do_not_see_each_other(tmp_path: Path, repository: Path) -> None:
    names = ["A", "B", "C", "D"]
    meet = "touch $PODIUM_ARTIFACTS/{0}; until [ $(ls $PODIUM_ARTIFACTS | wc -l) -ge 4 ]; do sleep 0.01; done"
    branches = [agent(f"echo {name} > a.txt; {meet.format(name)}; cat a.txt > seen", name) for name in names]
    ended = work(tmp_path, {"name": "All", "parallel": branches})
    assert ended.exit_code == 0
    for name in names:
        told = diff(ended, f"All/{name}")
        assert [line for line in told.splitlines() if line.startswith("+") and "+++" not in line] == [
            f"+{name}"
        ] * 2
    nothing_is_left(ended, repository)


def test_worktrees_of_one_repository_come_and_go_at_the_same_time(tmp_path: Path, repository: Path) -> None:
    """Git itself fails at that now and then: nine of 240 on the machine this was written on."""
    loop = {
        "items": list(range(24)),
        "parallel": True,
        "max_workers": 8,
        "steps": [agent("echo more >> a.txt")],
    }
    ended = work(tmp_path, {"name": "All", "for_each": loop})
    assert ended.exit_code == 0
    assert len(list((ended.directory / "artifacts/diffs").iterdir())) == 24
    nothing_is_left(ended, repository)


def test_what_an_agent_commits_is_in_the_diff_too(tmp_path: Path, repository: Path) -> None:
    author = " ".join(_AUTHOR)
    ended = work(tmp_path, agent(f"echo more >> a.txt; git {author} commit -qam more; echo last > c.txt"))
    assert "+more" in diff(ended)
    assert "+last" in diff(ended)
    nothing_is_left(ended, repository)


def test_nothing_changed_is_an_empty_diff(tmp_path: Path, repository: Path) -> None:
    assert diff(work(tmp_path, agent("true"))) == ""


def test_the_work_of_an_agent_that_fails_is_kept(tmp_path: Path, repository: Path) -> None:
    ended = work(tmp_path, agent("echo more >> a.txt; exit 3", retry={"attempts": 2, "delay": 0.01}))
    assert ended.exit_code == 1
    assert "+more" in diff(ended)
    assert ended.error("A")[1] == "AGENT_ERROR"
    # Each attempt began anew and has a diff of its own.
    assert [path.name for path in sorted((ended.directory / "artifacts/diffs").iterdir())] == [
        "A.1.diff",
        "A.2.diff",
    ]
    assert diff(ended).count("+more") == 1
    nothing_is_left(ended, repository)


def test_a_worktree_begins_at_the_last_commit_and_says_what_it_leaves_out(
    tmp_path: Path, repository: Path
) -> None:
    (repository / "a.txt").write_text("not committed\n")
    (repository / "new.txt").write_text("untracked\n")
    ended = work(tmp_path, agent("cat a.txt > seen; ls >> seen"))
    assert "+one" in diff(ended)
    assert "new.txt" not in diff(ended)
    assert ended.step("A")["warnings"] == [
        "the workspace has changes that are not committed; the worktree started without them"
    ]
    assert (repository / "a.txt").read_text() == "not committed\n"


def test_a_workspace_below_its_repository_is_the_same_folder_of_the_worktree(
    tmp_path: Path, repository: Path
) -> None:
    ended = work(tmp_path, agent("cat b.txt; echo more >> b.txt"), workspace=repository / "sub")
    assert ended.step("A")["output"].startswith("two")
    assert "b/sub/b.txt" in diff(ended)
    inner = repository / "new"
    inner.mkdir()
    ended = work(tmp_path, agent("true"), workspace=inner)
    assert ended.error("A")[:2] == (125, "WORKTREE_NOT_POSSIBLE")
    nothing_is_left(ended, repository)


def test_a_workdir_is_a_folder_of_the_worktree(tmp_path: Path, repository: Path) -> None:
    ended = work(tmp_path, agent("echo more >> b.txt", workdir="sub"))
    assert "b/sub/b.txt" in diff(ended)
    assert (repository / "sub" / "b.txt").read_text() == "two\n"


def test_without_a_repository_or_a_commit_nothing_begins(tmp_path: Path) -> None:
    with pytest.raises(NoWorktree, match="needs a git repository"):
        work(tmp_path, agent("true"))
    git(tmp_path / "workspace", "init", "--quiet")
    with pytest.raises(NoWorktree, match="has no commit"):
        work(tmp_path, agent("true"))
    assert not [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]


def test_without_git_nothing_begins(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")  # what the provider needs is there; git is not
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(NoWorktree, match="git is not on PATH"):
        work(tmp_path, agent("true"))


def test_a_call_is_looked_into_before_anything_begins(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    inner = {"name": "A", "provider": "echo", "prompt": "x", "workspace": "worktree"}
    (workspace / "inner.yaml").write_text(json.dumps({"version": "2.0", "name": "i", "steps": [inner]}))
    with pytest.raises(NoWorktree):
        work(tmp_path, {"name": "C", "call": {"workflow": "inner.yaml"}}, providers={})


EVIL = """
rm .git; mkdir .git .git/objects .git/refs; echo 'ref: refs/heads/x' > .git/HEAD
printf '[core]\\nfsmonitor = touch %s/caught\\n[diff]\\nexternal = touch %s/caught\\n' $PWD/.. $PWD/.. > .git/config
echo '* diff=evil filter=evil' > .gitattributes
echo more >> a.txt
mkdir closed; echo x > closed/x; chmod 000 closed
"""


def test_a_repository_that_an_agent_puts_in_place_of_ours_is_not_obeyed(
    tmp_path: Path, repository: Path
) -> None:
    ended = work(tmp_path, agent(EVIL + "chmod 755 closed"))
    assert ended.exit_code == 0
    assert "+more" in diff(ended)
    assert not list(tmp_path.rglob("caught"))
    nothing_is_left(ended, repository)


def test_what_an_agent_does_to_the_index_hides_nothing(tmp_path: Path, repository: Path) -> None:
    lock = "touch $(git rev-parse --git-dir)/index.lock"
    script = f"git update-index --assume-unchanged a.txt; echo more >> a.txt; {lock}"
    ended = work(tmp_path, agent(script))
    assert "+more" in diff(ended)
    nothing_is_left(ended, repository)


def test_hooks_of_the_repository_are_left_alone(tmp_path: Path, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    work(tmp_path, agent("true"))
    assert not (tmp_path / "hooked").exists()


def test_variables_of_a_hook_do_not_lead_an_agent_elsewhere(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    ended = work(tmp_path, agent("git rev-parse --absolute-git-dir; echo more >> a.txt"))
    assert ended.step("A")["output"].startswith(f"{repository}/.git/worktrees/")
    assert "+more" in diff(ended)


def test_settings_of_a_user_do_not_change_the_diff(tmp_path: Path, repository: Path) -> None:
    for name, value in (("diff.noprefix", "true"), ("diff.external", "false"), ("color.ui", "always")):
        git(repository, "config", name, value)
    told = diff(work(tmp_path, agent("echo more >> a.txt")))
    assert told.startswith("diff --git a/a.txt b/a.txt")
    assert "\x1b" not in told


def test_a_diff_with_a_secret_is_warned_about(tmp_path: Path, repository: Path) -> None:
    ended = work(tmp_path, agent("echo $TOKEN > t", secrets=["TOKEN"]), secrets={"TOKEN": "s3cret-value"})
    (warning,) = ended.step("A")["warnings"]
    assert "holds the value of a secret" in warning


def test_changes_that_cannot_be_kept_fail_the_step_and_stay_where_they_are(
    tmp_path: Path, repository: Path
) -> None:
    ended = work(tmp_path, agent("echo more >> a.txt; ln -s /tmp $PODIUM_ARTIFACTS/diffs"))
    _, code, message = ended.error("A")
    assert code == "OUTPUT_NOT_KEPT"
    left = Path(message.rpartition(" left at ")[2])
    assert (left / "a.txt").read_text() == "one\nmore\n"
    git(repository, "worktree", "remove", "--force", str(left))


def test_a_repository_inside_of_the_worktree_is_told_of(tmp_path: Path, repository: Path) -> None:
    author = " ".join(_AUTHOR)
    script = f"git init -q inner; cd inner; echo x > x; git add x; git {author} commit -qm x"
    (warning,) = work(tmp_path, agent(script)).step("A")["warnings"]
    assert "another repository in the worktree" in warning


def test_an_agent_that_is_stopped_leaves_a_diff_and_no_worktree(tmp_path: Path, repository: Path) -> None:
    async def cancel(driving: Driving) -> None:
        await appears(tmp_path / "begun")
        driving.cancel("enough")

    step = agent(f"echo more >> a.txt; echo x > {tmp_path}/begun; sleep 60")
    ended = asyncio.run(drive(tmp_path, step, meanwhile=cancel, providers=SCRIPTS))
    assert ended.error("A")[1] == "CANCELLED"
    assert "+more" in diff(ended)
    nothing_is_left(ended, repository)


def test_names_from_elsewhere_stay_in_their_place(tmp_path: Path, repository: Path) -> None:
    name = "-rf ~ $(touch x) * é"
    ended = work(tmp_path, agent("echo more >> a.txt", name))
    (kept,) = ended.step(name)["artifacts"]
    assert kept["path"].startswith("diffs/")
    assert kept["path"].count("/") == 1
    assert not list(tmp_path.rglob("x"))
    nothing_is_left(ended, repository)
