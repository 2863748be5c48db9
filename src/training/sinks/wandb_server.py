"""Is a W&B server there at all? Asked before wandb is, which takes 13 s and more to give up on a silent one."""

from __future__ import annotations

import queue
import ssl
import threading
import urllib.error
import urllib.request
from http.client import HTTPException


def silence(address: str, seconds: float) -> str | None:
    """Why a W&B server cannot be used, or None where it answers anything at all within `seconds`."""
    answers: queue.Queue[str | None] = queue.Queue()

    def ask() -> None:
        try:
            request = urllib.request.Request(
                f"{address}/graphql",
                data=b'{"query": "{ __typename }"}',
                headers={"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=seconds).close()
            answers.put(None)
        except urllib.error.HTTPError as error:
            error.close()
            answers.put(None)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            # wandb trusts certificates of its own choice; let it judge.
            answers.put(None if isinstance(reason, ssl.SSLError) else f"{address}: {reason}")

    threading.Thread(target=ask, daemon=True).start()  # looking up a name knows no timeout
    try:
        return answers.get(timeout=seconds + 0.5)
    except queue.Empty:
        return f"{address} did not answer within {seconds:g} s"
