"""A step that writes more than it may is stopped with a code of its own, and nothing half is passed off as whole."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acceptance.podium import Place


def failed_with(tmp_path: Path, step: str) -> tuple[Place, str]:
    place = Place(tmp_path)
    place.write(f"steps: [{{name: A, timeout: 50, {step}}}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    return place, place.state()["steps"]["A"]["error"]["code"]


@pytest.mark.rule("D36")
@pytest.mark.parametrize("stream", ["yes", "yes >&2"])
def test_a_command_that_floods_its_log_is_stopped(tmp_path: Path, stream: str) -> None:
    place, code = failed_with(tmp_path, f"command: [sh, -c, '{stream}'], limits: {{max_log_size: 1M}}")
    assert code == "LOG_LIMIT_EXCEEDED"
    logs = [path.stat().st_size for path in place.file("logs").rglob("*") if path.suffix in (".out", ".err")]
    assert logs == [1_000_000]
    assert place.processes() == []


@pytest.mark.rule("D36")
def test_an_output_file_that_would_not_be_whole_is_not_kept(tmp_path: Path) -> None:
    step = "command: [sh, -c, 'head -c 50000 /dev/zero'], output_file: big, limits: {max_artifact_size: 40K}"
    place, code = failed_with(tmp_path, step)
    assert code == "ARTIFACT_LIMIT_EXCEEDED"
    assert not place.file("artifacts/big").exists()


SELF_WRITTEN = {
    "command": "command: [sh, -c, '{script} \"$PODIUM_ARTIFACTS\"']",
    "python": "python: writing:it",
}


@pytest.mark.rule("D36")
@pytest.mark.parametrize("kind", SELF_WRITTEN)
@pytest.mark.parametrize("name", ["big", "folder"])
def test_an_expected_file_that_is_too_large_fails_its_step(tmp_path: Path, kind: str, name: str) -> None:
    script = "mkdir -p folder/deep; head -c 50000 /dev/zero > folder/deep/part; head -c 50000 /dev/zero > big"
    (tmp_path / "write.sh").write_text(f'cd "$1"; {script}')
    (tmp_path / "writing.py").write_text(
        "import os, subprocess\n"
        "def it(): subprocess.run(['sh', 'write.sh', os.environ['PODIUM_ARTIFACTS']], check=True)\n"
    )
    step = SELF_WRITTEN[kind].format(script="sh write.sh")
    place, code = failed_with(
        tmp_path, f"{step}, expect: {{files: [{name}]}}, limits: {{max_artifact_size: 40K}}"
    )
    assert code == "ARTIFACT_LIMIT_EXCEEDED"
    message = place.state()["steps"]["A"]["error"]["message"]
    assert f"{name!r} has 50,000 bytes, more than 40,000 (limits.max_artifact_size)" in message


@pytest.mark.rule("D36")
def test_the_output_file_of_a_function_respects_its_limit(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("def it(): return 'x' * 50_000\n")
    place, code = failed_with(tmp_path, "python: long:it, output_file: out, limits: {max_artifact_size: 40K}")
    assert code == "ARTIFACT_LIMIT_EXCEEDED"
    assert list(place.file("artifacts").iterdir()) == []


@pytest.mark.rule("D36")
def test_a_function_that_floods_its_log_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text("def it():\n    while True: print('x' * 1000)\n")
    _, code = failed_with(tmp_path, "python: flood:it, limits: {max_log_size: 1M}")
    assert code == "LOG_LIMIT_EXCEEDED"


@pytest.fixture
def bomb() -> Iterator[str]:
    """The address of an answer of 50 kB that becomes 50 MB."""
    packed = gzip.compress(bytes(50_000_000))

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()
        thread.join()


@pytest.mark.rule("D36")
def test_a_body_counts_once_it_is_decompressed(tmp_path: Path, bomb: str) -> None:
    step = f"http: {{url: '{bomb}'}}, output_file: body, limits: {{max_body_size: 10M}}"
    place, code = failed_with(tmp_path, step)
    assert code == "HTTP_BODY_TOO_LARGE"
    assert not place.file("artifacts/body").exists()


@pytest.mark.rule("D36")
@pytest.mark.parametrize("provider", ["echo", "mine"])
def test_the_output_file_of_an_agent_has_the_same_cap(tmp_path: Path, provider: str) -> None:
    place = Place(tmp_path)
    place.write(
        f"""
        providers: {{mine: {{argv: [cat]}}}}
        steps:
          - name: A
            provider: {provider}
            prompt: {"x" * 5000}
            output_file: said
            limits: {{max_artifact_size: 4K}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    assert place.state()["steps"]["A"]["error"]["code"] == "ARTIFACT_LIMIT_EXCEEDED"
    assert list(place.file("artifacts").iterdir()) == []


@pytest.mark.rule("D30")
def test_a_cached_result_stays_when_only_a_cap_changes_and_not_when_the_cut_does(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = "steps: [{name: A, command: [sh, -c, 'echo ran >> ran; seq 9'], cache: true, limits: {LIMITS}}]"
    for limits in ("max_log_size: 1M", "max_log_size: 2M, max_artifact_size: 1M", "max_memory: 2G"):
        place.write(text.replace("LIMITS", limits))
        place.run("run", "w.yaml", "-q")
    assert (tmp_path / "ran").read_text() == "ran\n"
    place.write(text.replace("LIMITS", "max_output_size: 6"))
    place.run("run", "w.yaml", "-q")
    assert (tmp_path / "ran").read_text() == "ran\nran\n"
