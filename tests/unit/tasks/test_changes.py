"""What an agent changed in a folder: found, and made again in another one."""

import subprocess
from pathlib import Path

import pytest

from podium.log.redaction import Redactor
from podium.runtime.rundir import PathRefused
from podium.runtime.tasks.changes import MAX_BYTES, Changes, FileChange, changes, look, make_again


class Folders:
    """A folder that is worked in, and a copy of how it was before."""

    def __init__(self, root: Path) -> None:
        self.worked_in = root / "one"
        self.copy = root / "other"
        for folder in (self.worked_in, self.copy):
            folder.mkdir()
            (folder / "kept").write_text("kept")
            (folder / "gone").write_text("gone")
            (folder / "deep").mkdir()
            (folder / "deep/file").write_text("deep")
        self.before = look(self.worked_in)

    def changes(self, redactor: Redactor | None = None) -> Changes:
        after = look(self.worked_in)
        assert self.before is not None
        assert after is not None
        return changes(self.worked_in, self.before, after, redactor)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def told(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            str(path.readlink()).encode() if path.is_symlink() else path.read_bytes(),
        )
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_nothing_is_found_where_nothing_was_changed(folders: Folders) -> None:
    assert folders.changes().files == []


def test_texts_bytes_links_programs_and_removals_are_made_again(folders: Folders) -> None:
    root = folders.worked_in
    (root / "text").write_text("ä\n\r\nlast line without its end")
    (root / "bytes").write_bytes(bytes(range(256)))
    (root / "empty").touch()
    (root / "program").write_text("#!/bin/sh\n")
    (root / "program").chmod(0o755)
    (root / "link").symlink_to("nowhere")
    # A file that becomes a folder.
    (root / "gone").unlink()
    (root / "gone").mkdir()
    (root / "gone/inside").write_text("new")
    # And a folder that becomes a file.
    (root / "deep/file").unlink()
    (root / "deep").rmdir()
    (root / "deep").write_text("flat")
    found = folders.changes()
    make_again(folders.copy, found.files)
    assert told(folders.copy) == told(root)
    # Once more: what is there already does no harm.
    make_again(folders.copy, found.files)
    assert told(folders.copy) == told(root)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(folders: Folders, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (folders.copy / "file").symlink_to(outside)
    make_again(folders.copy, [FileChange("file", text=["new"])])
    assert outside.read_text() == "mine"
    assert (folders.copy / "file").read_text() == "new"


def test_a_link_to_another_folder_is_not_written_through(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folders.copy / "folder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathRefused):
        make_again(folders.copy, [FileChange("folder/file", text=["new"])])


def test_large_files_are_left_out_and_secrets_are_masked(folders: Folders) -> None:
    (folders.worked_in / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    (folders.worked_in / "secret").write_bytes(b"\xff correct-horse")
    found = folders.changes(Redactor(["correct-horse"]))
    assert found.left_out == ["large"]
    make_again(folders.copy, found.files)
    assert (folders.copy / "secret").read_bytes() == b"\xff ***"


def test_what_git_ignores_is_left_alone_unless_the_whole_folder_is_ignored(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("build/\n*.pyc\n")
    inner = tmp_path / "build"
    inner.mkdir()
    before = look(tmp_path)
    (tmp_path / "a.pyc").touch()
    (tmp_path / "a.py").touch()
    (inner / "b.py").touch()
    after = look(tmp_path)
    assert before is not None
    assert after is not None
    assert [one.path for one in changes(tmp_path, before, after, None).files] == ["a.py"]
    assert [one.path for one in changes(inner, {}, look(inner) or {}, None).files] == ["b.py"]


def test_what_this_process_has_open_is_its_own(folders: Folders) -> None:
    with (folders.worked_in / "podium.db").open("w") as file:
        file.write("log")
        file.flush()
        assert folders.changes().files == []
    assert [one.path for one in folders.changes().files] == ["podium.db"]
