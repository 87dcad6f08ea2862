"""Paths stay inside their roots; files are whole or not there."""

from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from podium.runtime.rundir import NewFile, PathRefused, RunDirectory, first_inside, inside, write_atomically


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "in").symlink_to(root / "sub")
    (root / "loop").symlink_to(root / "loop")
    return root


@pytest.mark.rule("D38")
@pytest.mark.parametrize(
    "path", ["..", "../x", "sub/../../x", "/etc/passwd", "out", "out/x", "", "a\0b", "."]
)
def test_a_path_that_leads_out_is_refused(root: Path, path: str) -> None:
    with pytest.raises(PathRefused):
        inside(root, path, what="file")


@pytest.mark.rule("D38")
@pytest.mark.parametrize(
    ("path", "found"), [("x", "x"), ("sub/../x", "x"), ("in/x", "sub/x"), ("./sub", "sub")]
)
def test_a_path_that_stays_inside_is_followed(root: Path, path: str, found: str) -> None:
    assert inside(root, path, what="file") == root / found
    assert inside(root, str(root / path), what="file") == root / found


def test_a_folder_may_be_the_root_itself(root: Path) -> None:
    assert inside(root, ".", what="workdir", itself=True) == root


@pytest.mark.rule("D38")
def test_the_first_root_that_has_a_file_wins(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for folder in roots:
        folder.mkdir()
    assert first_inside(roots, "x", what="file") is None
    (tmp_path / "two/x").touch()
    assert first_inside(roots, "x", what="file") == tmp_path / "two/x"
    assert first_inside(roots, str(tmp_path / "two/x"), what="file") == tmp_path / "two/x"
    (tmp_path / "one/x").touch()
    assert first_inside(roots, "x", what="file") == tmp_path / "one/x"
    with pytest.raises(PathRefused):
        first_inside(roots, "../x", what="file")


@pytest.mark.rule("D39", "R006", "R015")
def test_a_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    file = NewFile(tmp_path / "name.md")
    file.write(b"half")
    assert not (tmp_path / "name.md").exists()
    file.write(b" and half")
    assert file.commit() == sha256(b"half and half").hexdigest()
    file.discard()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("name.md", b"half and half")]


@pytest.mark.rule("D39", "R006")
def test_whoever_reads_a_file_while_it_is_replaced_reads_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.rule("D39")
def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    file = NewFile(tmp_path / "x")
    file.write(b"half")
    file.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("D39")
def test_files_that_are_written_at_the_same_time_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    with ExitStack() as opened:
        files = []
        for number, name in enumerate(("a.md", "a.txt", "a.md")):
            files.append(NewFile(tmp_path / name))
            opened.callback(files[-1].discard)
            files[-1].write(str(number).encode())
        for file in files:
            file.commit()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.md": "2", "a.txt": "1"}


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    name = "é" * 127
    write_atomically(tmp_path / name, b"x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.rule("D39", "R083")
def test_leftovers_of_a_dead_process_are_removed(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, "r")
    directory.make()
    half = NewFile(directory.artifacts / "deep" / "file")
    half.write(b"secret")
    Path(directory.output_values("A", 1)).write_text("token=secret")
    (directory.artifacts / ".hidden").touch()
    directory.remove_leftovers()
    left = [path.name for path in directory.path.rglob("*") if path.is_file()]
    assert left == [".hidden"]
    half.discard()
