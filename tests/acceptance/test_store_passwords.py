"""The password of a store's address is not shown, whatever is wrong with the address."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.mark.parametrize("password", ["pw%zzquoted", "pw%quoted", "pw%4quoted"])
def test_a_password_that_is_not_encoded_is_not_quoted_by_the_message(tmp_path: Path, password: str) -> None:
    done = Place(tmp_path).run("runs", "list", "--store", f"postgresql://u:{password}@127.0.0.1:1/x", code=64)
    assert "UNKNOWN_STORE" in done.stderr
    assert "write % as %25" in done.stderr
    assert "quoted" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "address",
    [
        "host=db.example password=hunter22 dbname=podium",
        "port=5432 password = hunter22",
        "dbname=x",
        "postgresql:podium:hunter22@db.example/podium",
        "postgres:/podium:hunter22@db.example/podium",
    ],
)
def test_an_address_for_other_programs_does_not_become_a_file(tmp_path: Path, address: str) -> None:
    place = Place(tmp_path)
    done = place.run("store", "migrate", "--store", address, code=64)
    assert "UNKNOWN_STORE" in done.stderr
    assert "postgresql://USER@HOST/DATABASE" in done.stderr
    assert "hunter22" not in done.stdout + done.stderr
    assert not list(tmp_path.glob("*=*"))
    assert not list(tmp_path.glob("postgres*"))
