import socket
import time
from collections.abc import Iterator

import pytest

from src.training.sinks.wandb_mirror import silence
from tests.training.sinks.conftest import StandIn


@pytest.fixture
def deaf_address() -> Iterator[str]:
    """A port that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_any_answer_at_all_is_no_silence(stand_in: StandIn) -> None:
    assert silence(stand_in.address, 10.0) is None
    assert silence(f"{stand_in.address}/nowhere", 10.0) is None  # an error is an answer


def test_a_server_that_accepts_and_never_answers_is_given_up_in_time(deaf_address: str) -> None:
    began = time.monotonic()
    reason = silence(deaf_address, 0.2)
    assert time.monotonic() - began < 5
    assert reason is not None
    assert deaf_address in reason


def test_a_refused_port_and_an_unreadable_address_are_reasons() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert "refused" in str(silence(address, 10.0))
    assert silence("no address", 1.0) is not None


def test_looking_up_a_name_for_ever_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object) -> None:
        time.sleep(3)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    began = time.monotonic()
    assert silence("http://wandb.invalid", 0.1) == "http://wandb.invalid did not answer within 0.1 s"
    assert time.monotonic() - began < 3
