"""What steps are given of where their run is kept and works is true where they run (D62)."""

from pathlib import Path

from tests.acceptance.podium import Place


def test_places_in_templates_are_those_of_the_process_that_drives_the_run(tmp_path: Path) -> None:
    old = Place(tmp_path / "old")
    old.folder.mkdir()
    old.write("""
        steps:
          - {name: A, command: [test, -f, ok]}
          - name: B
            command: [sh, -c, "echo ${run.workspace} ${run.dir} ${run.artifacts}; pwd; env | grep ^PODIUM_ | sort"]
        """)
    old.run("run", "w.yaml", "--run-id", old.run_id, code=1)
    new = Place(old.folder.rename(tmp_path / "new"))
    (new.folder / "ok").touch()
    new.run("resume", old.run_id, "--workspace", ".")
    run = new.runs / old.run_id
    shown = new.run("logs", old.run_id, "B").stdout.splitlines()
    assert {f"{new.folder}", f"PODIUM_RUN_DIR={run}", f"PODIUM_ARTIFACTS={run / 'artifacts'}"} <= set(shown)
    assert f"{new.folder} {run} {run / 'artifacts'}" in shown
