"""A command as it is typed, given in this process: what it does and says, without a second start of Python and torch.

Where a process of its own is the point (a signal, a kill, two at once, a foreign launcher), a test starts one.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

from hydra.core.global_hydra import GlobalHydra


def command(module: str, *words: str, here: Path) -> subprocess.CompletedProcess[str]:
    """`python -m <module> <words>` in the folder `here`."""
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(here))
        stack.enter_context(patch.object(sys, "argv", [module, *words]))
        stack.enter_context(patch.dict(os.environ, {"CI": "true", "COLUMNS": "200"}))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "'.*' found in sys.modules", RuntimeWarning)  # runpy, of what was imported
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            code = end.code
        finally:
            GlobalHydra.instance().clear()
    returned = code if isinstance(code, int) else int(code is not None)
    return subprocess.CompletedProcess([module, *words], returned, out.getvalue(), err.getvalue())
