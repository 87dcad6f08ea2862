"""Files with the token or key for the server of an engine, as they should not be."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write('steps: [{name: A, command: "true"}]\n')
    return place


@pytest.mark.rule("CN02")
@pytest.mark.parametrize(
    ("engine", "option"), [("conductor", "--token-file"), ("temporal", "--api-key-file")]
)
def test_a_file_without_a_secret_is_refused(place: Place, tmp_path: Path, engine: str, option: str) -> None:
    """Otherwise the server is asked without one, and says something else."""
    (tmp_path / "secret").write_text(" \n")
    said = place.run("run", "w.yaml", "--engine", engine, option, str(tmp_path / "secret"), code=78).stderr
    assert said.startswith("CONFIG_INVALID")
    assert f"{option} '{tmp_path / 'secret'}' is empty" in said


@pytest.mark.rule("CN02")
@pytest.mark.parametrize("token", ["first\nsecret", "s\u00ebcret"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(
    place: Place, tmp_path: Path, token: str
) -> None:
    (tmp_path / "token").write_text(token)
    for words in (("run", "w.yaml"), ("worker",)):
        said = place.run(*words, "--engine", "conductor", "--token-file", str(tmp_path / "token"), code=78)
        assert said.stderr.startswith("CONFIG_INVALID")
        assert "check --token-file" in said.stderr
        assert "cret" not in said.stderr.replace("secrets", "")
