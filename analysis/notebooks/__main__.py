"""Runs every notebook anew, in its folder, and keeps the outputs. Ends with exit code 1 where a cell fails."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parent
TIMEOUT_S = 600


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs; nothing is written. Raises CellExecutionError where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran: a change in every run
    return notebook


def main() -> int:
    failed = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        try:
            nbformat.write(run(path), path)
            print(path.name)
        except CellExecutionError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
