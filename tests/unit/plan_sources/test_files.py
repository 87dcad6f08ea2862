"""Plans in files: below one folder, whole, and never overwritten."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from podium.errors import PodiumError
from podium.plan.locations import PlanPlaces, PlanUriNotAllowed
from podium.plan_sources.places import PlacesOfPlans
from podium.ports.plan_source import PlanExists, PlanNotFound

PLAN = b'{"plan":1}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "plans"
    root.mkdir()
    (root / "a.json").write_bytes(PLAN)
    (root / "a b.json").write_bytes(PLAN)
    (tmp_path / "secret.json").write_bytes(b"secret")
    return root


def source(root: Path, max_bytes: int = 1000) -> PlacesOfPlans:
    return PlacesOfPlans(lambda: PlanPlaces(file_root=str(root)), max_bytes=max_bytes)


def fetch(root: Path, path: Path | str, max_bytes: int = 1000) -> bytes:
    return asyncio.run(source(root, max_bytes).fetch(f"file://{path}"))


def test_a_file_below_the_root_is_read(root: Path) -> None:
    assert fetch(root, root / "a.json") == PLAN
    assert fetch(root, f"{root}/a%20b.json") == PLAN


@pytest.mark.rule("PR01")
def test_a_file_elsewhere_is_refused_also_through_a_link(root: Path) -> None:
    outside = root.parent
    (root / "link.json").symlink_to(outside / "secret.json")
    (root / "up").symlink_to(outside)
    beside = outside / "plans2"
    beside.mkdir()
    (beside / "a.json").write_bytes(PLAN)
    for path in (
        outside / "secret.json",
        root / "link.json",
        root / "up" / "secret.json",
        beside / "a.json",
        "/etc/passwd",
        root,
    ):
        with pytest.raises(PlanUriNotAllowed if path != root else PodiumError) as refused:
            fetch(root, path)
        assert "secret" not in str(refused.value).replace("secret.json", "")
        if path != root:
            with pytest.raises(PlanUriNotAllowed):
                asyncio.run(source(root).publish(f"file://{path}", PLAN))
    assert (outside / "secret.json").read_bytes() == b"secret"


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    (root.parent / "current").symlink_to(root)
    assert fetch(root.parent / "current", root.parent / "current" / "a.json") == PLAN


def test_what_is_not_a_file_of_its_size_is_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    for name, max_bytes, code in (
        ("pipe", 1000, "PLAN_UNAVAILABLE"),
        ("folder", 1000, "PLAN_UNAVAILABLE"),
        ("nothing.json", 1000, "PLAN_NOT_FOUND"),
        ("a.json/b.json", 1000, "PLAN_NOT_FOUND"),
        ("a.json", 5, "PLAN_TOO_LARGE"),
    ):
        with pytest.raises(PodiumError) as refused:
            fetch(root, root / name, max_bytes)
        assert refused.value.code == code, name


def test_a_root_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="No such file") as refused:
        fetch(tmp_path / "none", tmp_path / "none" / "a.json")
    assert refused.value.code == "PLAN_UNAVAILABLE"


@pytest.mark.rule("PR05")
def test_a_plan_is_published_once_and_never_overwritten(root: Path) -> None:
    uri = f"file://{root}/deep/er/new.json"
    assert asyncio.run(source(root).publish(uri, PLAN)) is True
    assert asyncio.run(source(root).publish(uri, PLAN)) is False
    with pytest.raises(PlanExists):
        asyncio.run(source(root).publish(uri, b"{}"))
    assert (root / "deep" / "er" / "new.json").read_bytes() == PLAN
    assert [path.name for path in (root / "deep" / "er").iterdir()] == ["new.json"]
    with pytest.raises(PodiumError) as refused:
        asyncio.run(source(root, max_bytes=5).publish(f"file://{root}/large.json", PLAN))
    assert refused.value.code == "PLAN_TOO_LARGE"
    with pytest.raises(PlanNotFound):
        fetch(root, root / "large.json")


@pytest.mark.rule("PR05")
def test_of_many_who_publish_at_the_same_time_one_does_and_the_others_learn_it(root: Path) -> None:
    def publish(number: int) -> bool | str:
        try:
            return asyncio.run(source(root).publish(f"file://{root}/one.json", b"%d" % (number % 2)))
        except PlanExists as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(publish, range(16)))
    assert outcomes.count(True) == 1
    winner = (root / "one.json").read_bytes()
    assert outcomes.count("PLAN_EXISTS") == 8
    assert winner in (b"0", b"1")
