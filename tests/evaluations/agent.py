"""A running `openskill up`, and conversations with its agent."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable
from urllib.parse import urlsplit

# How long a start may take.
PATIENCE_S = 60

# What the user answers to a request for approval.
Decide = Callable[[dict], dict]


def mcp(name: str, url: str, overrides: dict[str, dict]) -> dict:
    """The manifest of an MCP server of this process, with what its operator says about its tools."""
    # Calls that fail are a part of some solutions: they must not open a circuit.
    circuit = {"failure_threshold": 0, "minimum_calls": 0}
    server = {"overrides": overrides, "allow": [urlsplit(url).netloc]}
    return {"id": name, "type": "mcp", "runtime": "http", "entry": url, "circuit": circuit, "mcp": server}


class Agent:
    """Use it in a `with` block: the process ends with it."""

    def __init__(self, folders: list[Path], manifests: list[dict], model_url: str, **settings: str) -> None:
        # A signal that ends this process ends what it started, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.own = tempfile.TemporaryDirectory()
        here = Path(self.own.name)
        (here / "skills").mkdir()
        (here / "data").mkdir()
        for manifest in manifests:
            (here / "skills" / f"{manifest['id']}.json").write_text(json.dumps(manifest))
        binary = Path(os.environ.get("OPENSKILL_BIN", "target/release/openskill")).resolve()
        skills = ":".join(str(it) for it in [here / "skills", *folders])
        environment = {
            "PATH": os.environ["PATH"],
            "OPENSKILL_ALLOWED_ROOT": str(here / "data"),
            "OPENSKILL_AGENT_STORE": "memory",
            "OPENSKILL_AGENT_MAX_TOOL_CALLS": "50",
            "OPENSKILL_AGENT_MAX_ITERATIONS": "100",
            "OPENSKILL_TRACE_DIR": "memory",
            "OPENAI_API_BASE": model_url,
            "OPENAI_MODEL": "default",
            **settings,
        }
        command = [str(binary), "up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", skills]
        self.log = open(here / "log", "w+")
        self.process = subprocess.Popen(
            command, cwd=here, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        try:
            self.port = self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise

    def wait_until_ready(self) -> int:
        for line in self.process.stdout:
            if found := re.search(r"is ready.*http://127\.0\.0\.1:(\d+)", line):
                return int(found[1])
        self.log.seek(0)
        raise RuntimeError(f"openskill did not start:\n{self.log.read()}")

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.log.close()
        self.own.cleanup()

    def skills(self) -> list[dict]:
        return self.request("GET", "/skills")["skills"]

    def wait_for_skills(self, count: int) -> list[dict]:
        """Waits until so many skills are available."""
        until = time.monotonic() + PATIENCE_S
        while True:
            skills = self.skills()
            if sum(it["status"] == "available" for it in skills) >= count:
                return skills
            if time.monotonic() > until:
                raise RuntimeError(f"{count} skills should be available. Unavailable: {[(it['id'], it['status_reason']) for it in skills if it['status'] != 'available']}")
            time.sleep(0.05)

    def converse(self, message: dict, decide: Decide) -> tuple[list[dict], dict]:
        """One turn: its events, and how it ended. Questions are declined."""
        answer = self.chat({"message": message})
        events, conversation = answer["events"], answer["conversation_id"]
        while answer["done"]["end"] == "waiting":
            request_id = events[-1]["data"]["request_ids"][0]
            request = next(it for it in events if it["data"].get("request_id") == request_id)
            if request["event"] == "approval_required":
                body = {"decision": {"request_id": request_id, **decide(request["data"])}}
            else:
                body = {"answers": {"request_id": request_id, "declined": True}}
            answer = self.chat({"conversation_id": conversation, **body})
            events += answer["events"]
        return events, answer["done"]

    def chat(self, body: dict) -> dict:
        return self.request("POST", "/agent/chat", body)

    def request(self, method: str, path: str, body: dict | None = None) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, body and json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            if response.status != 200:
                raise RuntimeError(f"{method} {path}: {response.status} {text}")
            return json.loads(text)
        finally:
            connection.close()
