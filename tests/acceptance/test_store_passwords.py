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
