"""A step that must not be repeated blindly is not, even if the store is lost a moment after it started."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place

# Nothing is written later than this: the step kills the driver.
SCRIPT = r"""
echo paid >> paid
kill -9 $(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' $PODIUM_RUN_DIR/.lock)
"""
PAYS = """
steps:
  - {name: Before, command: [echo, before]}
  - name: Pay
    idempotent: false
    command: [sh, pay.sh]
  - {name: After, command: [echo, after]}
"""


@pytest.mark.rule("G13")
def test_a_step_that_had_started_is_in_doubt_in_a_rebuilt_store(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(PAYS)
    (tmp_path / "pay.sh").write_text(SCRIPT)
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q", code=-9)
    for path in place.runs.glob("podium.db*"):
        path.unlink()
    place.run("store", "rebuild")
    shown = place.run("resume", place.run_id, "-q", "--no-wait", code=5).stdout
    assert f"podium approve {place.run_id} Pay" in shown
    assert (tmp_path / "paid").read_text() == "paid\n"
    place.run("approve", place.run_id, "Pay")
    place.run("resume", place.run_id, "-q")
    assert (tmp_path / "paid").read_text() == "paid\n"
