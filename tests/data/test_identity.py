"""What a run is called and recognised by, and what its data is, must never change: old sweeps go on by these names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from src.config import Config, config_hash
from src.data.load import load_data
from src.training.plan import plan_run

TEXT = "".join(f"line {i} of a text\n" for i in range(2000))
MAY_CHANGE = "runs begun before would be trained again, and not be compared with those after"
DATA_AND_RUN = {
    "shakespeare": ("f89bfda9d55b", "nano-shakespeare-h4-c16-s0-0495fe179b3c"),
    "text_file": ("6a2ed71ff6ce", "nano-text-file-h4-c16-s0-c46a1515f193"),
    "bytes_file": ("ff97a5787134", "nano-bytes-file-h4-c16-s0-6783e50ee455"),
    "copy": ("59705ae3115b", "nano-copy-h4-c16-s0-e4c414226b16"),
    "induction": ("1d87d78620c2", "nano-induction-h4-c16-s0-4c9e18fb40ca"),
    "recall": ("541654c3747e", "nano-recall-h4-c16-s0-f7d949ac4d08"),
    "markov": ("8c00851a1b5b", "nano-markov-h4-c16-s0-072f905051cf"),
    "max_retrieval": ("e45ab730da82", "nano-max-retrieval-h4-c16-s0-b5490a36d853"),
    "farthest_point": ("9044e78e050f", "nano-farthest-point-h4-c16-s0-4667936042a1"),
}


@pytest.mark.parametrize("name", DATA_AND_RUN)
def test_data_and_runs_keep_their_names(config: Callable[..., Config], name: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TEXT)
    path = ["data.path=x.txt"] if name.endswith("_file") else []
    untied = ["model.tied_embeddings=false"] if name in ("max_retrieval", "farthest_point") else []
    settings = config(f"data={name}", "context_length=16", *path, *untied)
    data = load_data(settings.data, tmp_path)
    found, run_id = DATA_AND_RUN[name]
    assert data.hash.startswith(found), MAY_CHANGE
    assert run_id.endswith(config_hash(settings.identity, data.hash)), MAY_CHANGE
    assert plan_run(settings, tmp_path, lambda *_: data).run_id == run_id, MAY_CHANGE
