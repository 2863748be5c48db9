"""A run's record, made by hand: what sinks show and mirror, without training anything."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from src.compose import compose
from src.config import Config, LoggerConfig
from src.costs import Costs
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.record import Record
from src.training.sinks import wandb_sink

MakeRun = Callable[..., tuple[Record, Path]]


@pytest.fixture(scope="session")
def config() -> Config:
    return compose(["heads=8", "kv_heads=2", "training=smoke", "logger.notes=a note", "logger.tags=[first]"])


@pytest.fixture
def make_run(config: Config, tmp_path: Path) -> MakeRun:
    """Makes runs/single/<run_id>/record.json; keywords replace fields of the record."""

    def make(run_id: str = "nano-h8-kv2-s0-0123456789ab", **changes: Any) -> tuple[Record, Path]:
        folder = tmp_path / "runs" / config.group / run_id
        folder.mkdir(parents=True)
        geometry = Geometry.of(config)
        record = Record(
            run_id=run_id,
            status="running",
            config=config.model_dump(),
            config_hash="0123456789ab",
            code={"commit": "c0ffee"},
            data={"name": "shakespeare", "sha256": "ab"},
            environment={"device": "cpu", "dtype": "float32"},
            geometry=geometry.as_dict(),
            costs=Costs.of(geometry, TokenSpec(80), dtype="float32").as_dict(),
            started_at="2026-01-01T00:00:00.000+00:00",
        )
        record = replace(record, **changes)
        record.write(folder)
        return record, folder

    return make


@pytest.fixture
def summary() -> dict[str, float | int | None]:
    return {
        "val/loss": 1.88123,
        "val/perplexity": 6.5615,
        "val/bits_per_token": 2.71406,
        "val/loss_best": 1.8712,
        "val/loss_best_step": 1500,
        "train/tokens_per_second": 18300.4,
        "decode/prefill_tokens_per_second": 51234.5,
        "decode/ms_per_token": 3.14159,
        "decode/tokens_per_second": 318.3,
        "cache/bytes": 65536,
        "cost/parameters": 1234567,
        "memory/peak_bytes": None,
    }


@dataclass
class StoredRun:
    """What the stand-in server was told of one run."""

    fields: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    was_preempting: bool = False

    @property
    def config(self) -> dict[str, Any]:
        return {name: item["value"] for name, item in json.loads(self.fields["config"]).items()}

    def numbers(self, name: str) -> dict[int, float]:
        """One metric by step, in the order in which it arrived."""
        return {row["_step"]: row[name] for row in self.history if name in row}


class StandIn(ThreadingHTTPServer):
    """As much of a W&B server as `wandb.init`, `log` and `finish` ask for.

    While `silent` is set, it accepts and never answers.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StandInHandler)
        self.runs: dict[str, StoredRun] = {}
        self.silent = threading.Event()
        self.speaking = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no news."""


class StandInHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn  # type: ignore[assignment]

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_PUT(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = json.loads(self._body())
        if self.server.silent.is_set():
            self.server.speaking.wait(timeout=60)
        elif self.path == "/graphql":
            self._answer({"data": self._graphql(body["query"], body.get("variables") or {})})
        elif not self.path.endswith("/file_stream"):
            self.send_error(404)
        else:
            self._take_file_stream(self.server.runs[self.path.split("/")[-2]], body)
            self._answer({"exitcode": None, "limits": {}})

    def _graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        entity = {"id": "e", "name": "me"}
        if "upsertBucket" in query:
            run = self.server.runs.setdefault(variables["name"], StoredRun())
            run.fields |= {name: value for name, value in variables.items() if value is not None}
            bucket = {"id": "b", "name": variables["name"], "displayName": run.fields.get("displayName")}
            bucket["project"] = {"id": "p", "name": variables["project"], "entity": entity}
            bucket["historyLineCount"] = len(run.history)
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if "RunResumeStatus" in query:
            run = self.server.runs.get(variables["name"])
            model = {"id": "p", "name": variables["project"], "entity": entity, "bucket": run and self._bucket(run)}
            return {"model": model}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.server.address}/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        return {"viewer": {"id": "v", "username": "me", "entity": "me", "flags": "{}", "teams": {"edges": []}}}

    def _bucket(self, run: StoredRun) -> dict[str, Any]:
        tail = json.dumps([json.dumps(row) for row in run.history[-1:]])
        counts = {"historyLineCount": len(run.history), "eventsLineCount": 0, "logLineCount": 0}
        rest = {"eventsTail": "[]", "config": run.fields["config"], "tags": [], "wandbConfig": '{"t": 1}'}
        return {"id": "b", "summaryMetrics": json.dumps(run.summary), "historyTail": tail, **counts, **rest}

    def _take_file_stream(self, run: StoredRun, body: dict[str, Any]) -> None:
        files = body.get("files") or {}
        for line in files.get("wandb-history.jsonl", {}).get("content", []):
            run.history.append(json.loads(line))
        for line in files.get("wandb-summary.json", {}).get("content", []):
            run.summary = json.loads(line)
        run.was_preempting |= bool(body.get("preempting"))
        if body.get("complete"):
            run.exit_code = body["exitcode"]

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, value: dict[str, Any]) -> None:
        self._body() if self.command == "PUT" else None
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    """A running stand-in server, whose address and key are in the environment of what is started meanwhile."""
    with StandIn() as server, pytest.MonkeyPatch.context() as environment:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        environment.setenv("WANDB_BASE_URL", server.address)
        environment.setenv("WANDB_API_KEY", "0" * 40)
        for name in ("WANDB_MODE", "WANDB_SWEEP_ID", "WANDB_RUN_ID", "WANDB_SERVICE"):
            environment.delenv(name, raising=False)
        yield server
        server.speaking.set()
        server.shutdown()


@pytest.fixture(scope="module")
def one_child(stand_in: StandIn) -> Iterator[None]:
    """One child of its own serves the tests of a file, as it does the runs of a sweep."""
    wandb_sink.dismiss_idle()  # it would not know the stand-in's address
    yield
    wandb_sink.dismiss_idle()


@pytest.fixture
def logger(config: Config) -> Callable[..., LoggerConfig]:
    return lambda **changes: config.logger.model_copy(update={"timeout_s": 30.0, **changes})
