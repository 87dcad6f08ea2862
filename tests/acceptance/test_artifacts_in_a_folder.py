"""`artifacts: /folder`: what steps leave is in a folder that machines share, and is removed with the run."""

from pathlib import Path

from tests.acceptance.podium import Place

WORKFLOW = """
    version: "2.0"
    name: keeps
    steps:
      - {name: Make, command: [sh, -c, "printf report"], output_file: out/report.txt}
    """


def place_with(folder: Path, artifacts: str) -> Place:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(f"artifacts: {artifacts}\n")
    place = Place(folder)
    place.environment["PODIUM_CONFIG"] = str(folder / "config.yaml")
    return place


def kept(shared: Path) -> list[bytes]:
    return [one.read_bytes() for one in shared.glob("r1/*/??/*")]


def test_what_steps_leave_is_in_the_folder_until_the_run_is_pruned(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    place = place_with(tmp_path / "here", str(shared))
    place.write(WORKFLOW)
    place.run("run", "w.yaml", "--run-id", "r1", code=0)
    assert kept(shared) == [b"report"]
    place.run("prune", "--older-than", "0m", code=0)
    assert not (shared / "r1").exists()


def test_a_folder_that_cannot_be_written_is_found_before_a_run_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = place_with(tmp_path / "here", str(tmp_path / "file" / "below"))
    place.write(WORKFLOW)
    refused = place.run("run", "w.yaml", "--run-id", "r1", code=78)
    assert "ARTIFACT_BUCKET_UNREACHABLE" in refused.stderr
    assert not list(place.folder.glob("**/r1"))
