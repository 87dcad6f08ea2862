"""Proxies of the environment: HTTP steps ignore them, providers that call model servers use them."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the targets of the requests that came."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()
        thread.join()


def place_with_proxy(folder: Path, proxy: str) -> Place:
    place = Place(folder)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        place.environment.pop(name, None)
        place.environment.pop(name.lower(), None)
    place.environment |= {"HTTP_PROXY": proxy, "http_proxy": proxy}
    return place


@pytest.mark.rule("D68")
def test_an_http_step_ignores_proxies(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    place = place_with_proxy(tmp_path, "http://127.0.0.1:1")
    place.write(f"steps: [{{name: A, http: {{url: '{address}/direct'}}}}]")
    place.run("run", "w.yaml")
    assert asked == ["/direct"]


def test_a_provider_that_calls_a_model_server_uses_them(
    tmp_path: Path, server: tuple[str, list[str]]
) -> None:
    address, asked = server
    place = place_with_proxy(tmp_path, address)
    place.environment |= {"OPENAI_API_KEY": "123456", "OPENAI_BASE_URL": "http://model.invalid/v1"}
    place.write("steps: [{name: A, provider: openai, model: m, prompt: hi}]")
    place.run("run", "w.yaml", code=1)
    assert asked
    assert all(target.startswith("http://model.invalid/v1/") for target in asked)
