"""torch.compile: every kind compiles whole, and decoding does not compile anew for each token."""

import json
import os
import subprocess
import sys
from pathlib import Path

from src import ROOT

MOST = 3  # prefill, one decoded token, any number of them


def test_decoding_64_tokens_compiles_a_few_graphs_for_every_kind():
    script = Path(__file__).with_name("compiled_decoding.py")
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,  # a guard against hanging, no measurement
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found.keys() == {"mha", "gqa", "mqa", "mla"}
    for kind, counts in found.items():
        assert counts["training"] == 1, (kind, "training is one graph, without breaks")
        assert 2 <= counts["decoding"] <= MOST, (kind, counts)
        assert counts["difference"] <= 1e-5, kind
