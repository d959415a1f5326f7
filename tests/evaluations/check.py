"""Counts the calls of a model that makes known mistakes, so that `valid_calls.py` itself is checked."""

from __future__ import annotations

import os
import re
import sys

from servers import Reply, Servers, new_results
from valid_calls import main

# The first call of each tool, and what the model says once it read feedback that names the field.
FIRST = {
    "calculator": ("calculator", {"numbers": "many", "ops": ["mean"]}),
    "echo": ("echo", {"arguments": {"text": "hello"}}),
    "file_search": ("file_search", {"query": "nothing"}),
    "log_transform": None,
}
CORRECT = ("calculator", {"numbers": [1, 2], "ops": ["mean"]})


def model(request: dict) -> Reply:
    said = [it["content"] for it in request["messages"] if it["role"] == "user"][-1]
    first = FIRST[re.search(r"Call the tool (\S+) once", said)[1]]
    results = new_results(request)
    if first is None or (results and "INVALID_" not in results[0]):
        return Reply(text="That is all.")
    if not results:
        return Reply(calls=[first])
    return Reply(calls=[CORRECT if "numbers" in results[0] else first])


if __name__ == "__main__":
    servers = Servers()
    servers.models["scripted"] = model
    names = "|".join(FIRST)
    os.environ.update(MODEL=servers.url("/v1"), MODEL_NAME="scripted", ONLY=f"^({names})$", DATA="")
    sys.exit(main())
