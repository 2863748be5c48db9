"""The download against a real server on the loopback interface; no test leaves this machine."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from src.data.text import PublishedFile, download

CONTENT = b"Speak, speak.\n" * 100
Serve = Callable[[Callable[[BaseHTTPRequestHandler], None]], PublishedFile]


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Silent where the client hangs up, which is what several tests make it do."""


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("no_proxy", "*")
    servers: list[Server] = []

    def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> PublishedFile:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: object) -> None: ...

        server = Server(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return published(f"http://127.0.0.1:{server.server_port}/input.txt")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def published(address: str) -> PublishedFile:
    return PublishedFile(address, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def answer_with(
    content: bytes, length: int | None = None, status: int = 200
) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(content) if length is None else length))
        request.end_headers()
        request.wfile.write(content)

    return answer


def test_a_file_is_fetched_checked_and_kept(serve: Serve, tmp_path: Path) -> None:
    place = tmp_path / "data" / "input.txt"
    assert download(serve(answer_with(CONTENT)), place, timeout_s=5.0) == CONTENT
    assert place.read_bytes() == CONTENT
    assert [path.name for path in place.parent.iterdir()] == ["input.txt"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answer_with(b"<html>sign in</html>"), "20 bytes that are not the published file"),
        (answer_with(CONTENT + b"more" * 10**6), "not the published file"),
        (answer_with(CONTENT[:50], length=len(CONTENT)), "not the published file|broke off"),
        (answer_with(b"", status=404), "404"),
    ],
    ids=["another file", "endless", "cut short", "not found"],
)
def test_what_is_not_the_file_leaves_nothing_behind(
    serve: Serve, tmp_path: Path, answer: Callable[[BaseHTTPRequestHandler], None], message: str
) -> None:
    with pytest.raises(OSError, match=message):
        download(serve(answer), tmp_path / "input.txt", timeout_s=5.0)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_never_answers_is_given_up(serve: Serve, tmp_path: Path) -> None:
    release = threading.Event()
    file = serve(lambda request: (release.wait(10), None)[1])
    try:
        with pytest.raises(OSError, match="timed out"):
            download(file, tmp_path / "input.txt", timeout_s=0.1)
    finally:
        release.set()


def test_a_server_that_only_drips_is_given_up(serve: Serve, tmp_path: Path) -> None:
    release = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not release.wait(0.03):
            request.wfile.write(b"S")
            request.wfile.flush()

    file = serve(drip)
    try:
        with pytest.raises(TimeoutError, match=r"bytes came within 0\.2 s"):
            download(file, tmp_path / "input.txt", timeout_s=0.2)
    finally:
        release.set()
