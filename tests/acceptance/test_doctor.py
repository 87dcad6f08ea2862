"""`podium doctor` finds what is wrong, says what to do about it, and ends with a code that a script can use."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from podium.operations.doctor import Health, certificate
from tests.acceptance.podium import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("steps: [{name: A, command: [echo, a]}]")
    made.run("run", "w.yaml", "--quiet")
    return made


def findings(place: Place, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    shown = json.loads(place.run("doctor", "--json", *words, code=code).stdout)["findings"]
    return {one["check"]: one for one in shown}


def test_a_store_that_works_is_fine_and_what_is_missing_is_a_warning(place: Place) -> None:
    found = findings(place)
    states = {name: one["health"] for name, one in found.items()}
    fine = dict.fromkeys(("store", "schema", "clock", "tokens", "outbox"), "ok")
    assert states == {**fine, "disk": states["disk"], "workers": "warning"}
    assert found["store"]["text"] == "it answers and has 1 runs"
    assert "podium worker" in found["workers"]["advice"]
    text = place.run("doctor").stdout
    assert "!  workers: no worker serves this tenant\n   start one: `podium worker`" in text


def test_a_missing_store_is_a_problem_with_the_exit_code_of_its_error(place: Place) -> None:
    done = place.run("doctor", "--store", "none.db", code=64)
    assert "x  store: no store at 'none.db'" in done.stdout
    assert "UNKNOWN_STORE" in done.stderr
    place.run("doctor", "--store", "postgresql://127.0.0.1:1/x", code=69)


def test_times_from_the_future_are_a_problem(place: Place) -> None:
    import apsw

    with apsw.Connection(str(place.runs / "podium.db")) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
        assert "updated_at" in columns
        db.execute("UPDATE runs SET updated_at = '2199-01-01T00:00:00.000000Z'")
    found = findings(place, code=1)
    assert found["clock"]["health"] == "problem"
    assert "NTP" in found["clock"]["advice"]


def test_a_certificate_that_ends_soon_is_a_warning_and_one_that_ended_a_problem(place: Place) -> None:
    file = place.folder / "tls.pem"
    for days, health, code in ((365, "ok", 0), (3, "warning", 0), (-1, "problem", 1)):
        file.write_bytes(pem(timedelta(days=days)))
        assert findings(place, "--tls-cert", str(file), code=code)["certificate"]["health"] == health
    file.write_bytes(b"not a certificate")
    assert findings(place, "--tls-cert", str(file), code=1)["certificate"]["text"].endswith(
        "not a certificate"
    )
    assert certificate(file, "unreadable").health is Health.PROBLEM


def pem(valid: timedelta) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "podium")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - timedelta(days=30)).not_valid_after(now + valid)
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_tokens_that_never_expire_are_reported_when_they_are_old(place: Place) -> None:
    import apsw

    place.run("token", "add", "bot", "--role", "viewer")
    assert findings(place)["tokens"]["health"] == "ok"
    with apsw.Connection(str(place.runs / "podium.db")) as db:
        db.execute("UPDATE tokens SET created_at = '2020-01-01T00:00:00.000000Z'")
    found = findings(place)["tokens"]
    assert found["health"] == "warning"
    assert "never expires" in found["text"]
