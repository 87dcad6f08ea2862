"""One folder for each tenant and environment, one file for each secret, and no way out of the folder."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from podium.ports.secrets import SecretProviderFailed
from podium.secrets.file import FileSecrets
from podium.secrets.source import Scope

PROD = Scope("acme", "prod")


def find(folder: Path, *names: str, scope: Scope = PROD) -> dict[str, str]:
    return dict(asyncio.run(FileSecrets({PROD: folder}).find(names, scope)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "prod"
    folder.mkdir()
    (folder / "TOKEN").write_text("t0ken!\n")
    return folder


def test_the_content_of_a_file_is_the_value(folder: Path) -> None:
    assert find(folder, "TOKEN", "MISSING") == {"TOKEN": "t0ken!"}


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"value", "value"),
        (b"value\n", "value"),
        (b"value\r\n", "value"),
        (b"value\n\n", "value\n"),
        (b"value\r", "value\r"),
        (b" value ", " value "),
        (b"two\nlines\n", "two\nlines"),
        ("schlüssel".encode(), "schlüssel"),
        (b"", ""),
    ],
)
def test_one_line_break_at_the_end_is_not_part_of_the_value(folder: Path, content: bytes, value: str) -> None:
    (folder / "TOKEN").write_bytes(content)
    assert find(folder, "TOKEN") == {"TOKEN": value}


@pytest.mark.parametrize("scope", [Scope("acme", "test"), Scope("other", "prod"), Scope("default", "prod")])
def test_tenants_and_environments_have_folders_of_their_own(folder: Path, scope: Scope) -> None:
    assert find(folder, "TOKEN", scope=scope) == {}


def test_a_link_is_followed_inside_the_folder(folder: Path) -> None:
    (folder / "..2026").mkdir()
    (folder / "..2026" / "KEY").write_text("k3y!!!")
    (folder / "..data").symlink_to("..2026")
    (folder / "KEY").symlink_to("..data/KEY")
    assert find(folder, "KEY") == {"KEY": "k3y!!!"}


def test_the_folder_itself_may_be_a_link(folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)
    assert find(link, "TOKEN") == {"TOKEN": "t0ken!"}


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "prod-of-others").write_text("not yours")
    (folder / "UP").symlink_to("../prod-of-others")
    (folder / "ABSOLUTE").symlink_to(tmp_path / "prod-of-others")
    (folder / "CIRCLE").symlink_to("CIRCLE")
    (folder / "NOWHERE").symlink_to("nothing-here")
    assert find(folder, "UP", "ABSOLUTE", "CIRCLE", "NOWHERE") == {}


def test_what_is_no_file_is_refused_without_waiting_for_it(folder: Path) -> None:
    os.mkfifo(folder / "PIPE")
    (folder / "FOLDER").mkdir()
    waited = threading.Event()

    def let_go() -> None:
        """Should it wait after all, the test fails instead of hanging."""
        waited.set()
        os.close(os.open(folder / "PIPE", os.O_RDWR))

    rescue = threading.Timer(60, let_go)
    rescue.start()
    for name in ("PIPE", "FOLDER"):
        with pytest.raises(SecretProviderFailed, match=rf"secret '{name}'.*{name}\. Put the value"):
            find(folder, name)
    rescue.cancel()
    assert not waited.is_set()


def test_a_file_too_large_to_be_a_secret_is_refused(folder: Path) -> None:
    (folder / "TOKEN").write_bytes(b"x" * (1 << 20))
    assert len(find(folder, "TOKEN")["TOKEN"]) == 1 << 20
    (folder / "TOKEN").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(SecretProviderFailed, match="at most 1048576 bytes"):
        find(folder, "TOKEN")


@pytest.mark.parametrize("content", [b"hunter22\xff", b"hunter22\0", b"hunter22\xed\xa0\x80"])
def test_what_cannot_be_in_a_variable_is_refused_and_not_shown(folder: Path, content: bytes) -> None:
    (folder / "TOKEN").write_bytes(content)
    with pytest.raises(SecretProviderFailed, match="NUL byte or is not UTF-8") as told:
        find(folder, "TOKEN")
    assert "hunter22" not in repr(told.value)
    assert told.value.__context__ is None
