"""The design openskill began from: one web application that starts an interpreter for each call and waits for it."""

import json
import os
import subprocess
import time
import uuid
from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel, Field

SCRIPTS = Path(__file__).parent / "skills"
PYTHON = os.environ["BENCH_SCRIPT_PYTHON"]
TIMEOUT_S = 15
MAX_OUTPUT_BYTES = 10_000_000

app = FastAPI()


class Call(BaseModel):
    input: dict = Field(default_factory=dict)


def run(script: Path, given: dict) -> tuple[object, dict | None]:
    """The script's answer, or what went wrong."""
    try:
        done = subprocess.run(
            [PYTHON, str(script)], input=json.dumps({"input": given}), capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return None, {"code": "TIMEOUT", "message": "the skill took too long"}
    if done.returncode != 0:
        return None, {"code": "EXECUTION_ERROR", "message": done.stderr[-500:]}
    if len(done.stdout) > MAX_OUTPUT_BYTES:
        return None, {"code": "OUTPUT_TOO_LARGE", "message": "the skill wrote too much"}
    try:
        return json.loads(done.stdout), None
    except ValueError:
        return None, {"code": "EXECUTION_ERROR", "message": "the skill printed no JSON"}


# No coroutine: FastAPI gives each call a thread, where it may block.
@app.post("/skills/{skill_id}:invoke")
def invoke(skill_id: str, call: Call) -> dict:
    begun = time.perf_counter()
    script = SCRIPTS / f"{skill_id}.py"
    if not (skill_id.isidentifier() and script.is_file()):
        data, error = None, {"code": "NOT_FOUND", "message": "there is no such skill"}
    else:
        data, error = run(script, call.input)
    return {
        "success": error is None,
        "skill_id": skill_id,
        "trace_id": uuid.uuid4().hex,
        "data": data,
        "error": error,
        "meta": {"latency_ms": (time.perf_counter() - begun) * 1000, "version": "0.1.0"},
    }
