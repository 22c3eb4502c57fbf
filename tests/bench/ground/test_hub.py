"""The hub is asked as its own client asks: by HF_ENDPOINT and the environment's proxies."""

import os
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from bench.cli import without_hub
from bench.ground.hub import hub_failure, hub_url

NOBODY = "http://127.0.0.1:9"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of this machine's own, and what `without_hub` sets is undone."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE", *PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def proxy(code: int) -> Generator[tuple[str, list[str]]]:
    """The address of a proxy that answers `code`, and the requests that it has seen."""
    seen: list[str] = []

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            seen.append(self.rfile.readline().decode().rpartition(" ")[0])
            while self.rfile.readline().strip():
                pass  # headers
            self.wfile.write(f"HTTP/1.0 {code} So\r\n\r\n".encode())

    server = socketserver.TCPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()


def offline() -> bool:
    """Whether the libraries are told that there is no hub."""
    without_hub()
    return os.environ.get("HF_HUB_OFFLINE") == "1"


@pytest.mark.parametrize("code", [200, 404])
def test_a_hub_that_answers_behind_a_proxy_is_reached(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with proxy(code) as (address, seen):
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid/")
        assert not offline()
    assert seen == ["HEAD http://hub.invalid"]


def test_the_public_hub_is_asked_of_the_proxy_and_its_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(403) as (address, seen):
        monkeypatch.setenv("https_proxy", address)
        assert "403" in str(hub_failure(timeout_s=5))
    assert seen == ["CONNECT huggingface.co:443"]


@pytest.mark.parametrize("endpoint", [NOBODY, "hub.invalid", "http://"])
def test_a_hub_that_does_not_answer_is_said_to_the_libraries(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert offline()


def test_what_the_user_says_of_the_hub_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOBODY)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert not offline()


def test_an_empty_endpoint_is_the_public_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert hub_url() == "https://huggingface.co"
