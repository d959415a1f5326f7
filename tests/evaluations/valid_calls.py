"""How many calls of a real model are valid: at once, after repairs, after the gateway's feedback, after a bare error.

For each tool the model is asked to call it with given values. It sees all tools of the toolset. The agent does what it
always does: it repairs arguments, or sends feedback and asks again. Each tool whose first call was refused is tried a second
time, where the model reads a bare error in place of the feedback.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from agent import Agent, mcp
from servers import Servers

BARE = json.dumps({"status": "error", "error": {"code": "INVALID_ARGUMENT", "message": "the arguments are invalid"}})

# How a model is told of tools whose chat template knows none.
PROMPT = """You can call these tools:
<tools>
{tools}
</tools>
To call one, answer with nothing but the call, where the arguments fit its parameters. For a tool get_weather it would be:
<tool_call>
{{"name": "get_weather", "arguments": {{"city": "Paris", "days": 3}}}}
</tool_call>"""

# What a skill runs that ships without an implementation.
NOTHING = "print('{}')\n"


class Between:
    """A proxy before the model: answers are as repeatable as the model allows, and feedback may be left out."""

    def __init__(self, model: str, is_prompted: bool) -> None:
        self.is_prompted = is_prompted
        parts = urlsplit(model)
        self.address, self.path = parts.netloc, parts.path.rstrip("/") or "/v1"
        self.connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.is_bare = False
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
        self.http.daemon_threads = True
        self.http.between = self
        Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def send(self, method: str, path: str, headers: dict, body: bytes | None) -> tuple[int, str, bytes]:
        connection = self.connection(self.address, timeout=600)
        try:
            connection.request(method, self.path + path, body, headers)
            response = connection.getresponse()
            return response.status, response.getheader("content-type", ""), response.read()
        finally:
            connection.close()

    def first_model(self) -> str:
        status, _, body = self.send("GET", "/models", authorization(), None)
        if status != 200:
            raise SystemExit(f"{self.address}{self.path}/models answered {status}: name the model with MODEL_NAME")
        return json.loads(body)["data"][0]["id"]

    def change(self, body: dict) -> dict:
        body["temperature"] = 0
        if self.is_bare:
            for message in body["messages"]:
                if message["role"] == "tool" and "INVALID_" in message["content"]:
                    message["content"] = BARE
        return prompted(body) if self.is_prompted else body


def prompted(body: dict) -> dict:
    """The same request for a model whose chat template knows no tools: they stand in the instructions, and calls are text."""
    tools = "\n".join(json.dumps(it["function"]) for it in body.pop("tools", []))
    for message in body["messages"]:
        for call in message.pop("tool_calls", []):
            function = call["function"]
            call = f'{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}'
            message["content"] = f"{message.get('content') or ''}<tool_call>\n{call}\n</tool_call>"
        if message["role"] == "system":
            message["content"] += "\n\n" + PROMPT.format(tools=tools)
        elif message["role"] == "tool":
            message.update(role="user", content=f"<tool_response>\n{message['content']}\n</tool_response>")
            message.pop("tool_call_id", None)
    for name in ("tool_choice", "parallel_tool_calls"):
        body.pop(name, None)
    return body


class Forward(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        between: Between = self.server.between
        body = between.change(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        headers = {"content-type": "application/json", **authorization()}
        status, kind, answer = between.send("POST", "/chat/completions", headers, json.dumps(body).encode())
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


def authorization() -> dict:
    key = os.environ.get("OPENAI_API_KEY")
    return {"authorization": f"Bearer {key}"} if key else {}


class Listed:
    """Tools of which only the definitions are known."""

    def __init__(self, file: Path) -> None:
        self.definitions = json.loads(file.read_text())["tools"]

    def call(self, name: str, arguments: dict) -> str:
        return "done"


def shipped(folder: Path) -> Path:
    """The skills that ship, where those without an implementation do nothing instead of being unavailable."""
    shutil.copytree("worker/skills", folder)
    is_unavailable = re.compile(r"^unavailable:.*\n", re.M)
    for toolset in folder.glob("*/toolset.yaml"):
        text = toolset.read_text()
        toolset.write_text(is_unavailable.sub("", text))
        for manifest in toolset.parent.glob("*.yaml"):
            own = manifest.read_text()
            if manifest != toolset and (is_unavailable.search(text) or is_unavailable.search(own)):
                (toolset.parent / "nothing.py").write_text(NOTHING)
                manifest.write_text(is_unavailable.sub("", own) + "type: cli\nruntime: python\nentry: nothing.py\n")
    return folder


def sample(schema: dict) -> object:
    """A value that a schema accepts, simple and always the same."""
    if examples := schema.get("examples"):
        return examples[0]
    if "enum" in schema:
        return schema["enum"][0]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return sample(schema[several][0])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 3), min(schema.get("maximum", 3), 3))
    if kind == "boolean":
        return True
    if kind == "array":
        return [sample(schema.get("items", {}))]
    if kind == "object":
        return arguments(schema)
    return "2026-03-01" if "date" in str(schema.get("description", "")).lower() else "example"


def arguments(schema: dict) -> dict:
    """Values for what a tool requires, and for the first of its other parameters."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    optional = [name for name in properties if name not in required][:1]
    return {name: sample(properties[name]) for name in [*required, *optional]}


def task(skill: dict) -> str:
    """What the user says. The values stand in it as prose: the model has to write them as the schema wants them."""
    values = (skill.get("examples") or [arguments(skill["input_schema"])])[0]
    listed = "; ".join(f"{name.replace('_', ' ')}: {prose(value)}" for name, value in values.items())
    return f"Call the tool {skill['id']} once{' with these values: ' + listed if listed else ''}."


def prose(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(prose(it) for it in value) or "none"
    if isinstance(value, dict):
        return " and ".join(f"{name.replace('_', ' ')} {prose(it)}" for name, it in value.items()) or "nothing"
    return str(value)


def outcome(agent: Agent, skill: dict, model: str) -> tuple[str, int]:
    """What became of the call that was asked for, and how often its arguments were refused before."""
    limits = {"max_iterations": 4, "max_tool_calls": 3, "max_validation_retries": 3}
    message = {"text": task(skill), "model": model, "mode": "auto", "toolset": skill["toolset"], "limits": limits}
    events, done = agent.converse(message, lambda _: {"decision": "deny", "reason": "not needed any more"})
    refused = 0
    for event in events:
        name, data = event["event"], event["data"]
        if name in ("tool_call", "approval_required") and data["skill_id"] == skill["id"]:
            # Only valid arguments get that far.
            return ("repaired" if data["repairs"] else "valid"), refused
        refused += name == "tool_result" and data["code"] in ("INVALID_ARGUMENT", "INVALID_JSON")
    if done["end"] == "failed":
        raise SystemExit(f"the model failed: {done['error']}")
    return ("refused" if refused else "no such call"), refused


def main() -> int:
    if not (model_url := os.environ.get("MODEL")):
        raise SystemExit("say where the model is: make eval-agent MODEL=http://127.0.0.1:8080")
    data = Path(os.environ["DATA"]) if os.environ.get("DATA") else None
    only = re.compile(os.environ.get("ONLY", ""))
    is_prompted = os.environ.get("PROMPTED") == "1"
    between, servers = Between(model_url, is_prompted), Servers()
    model = os.environ.get("MODEL_NAME") or between.first_model()
    lists = sorted(data.glob("mcp_tools_*.json")) if data else []
    servers.tools = {it.stem.removeprefix("mcp_tools_"): Listed(it) for it in lists}
    manifests = [mcp(name, servers.url(f"/mcp/{name}"), {}) for name in servers.tools]
    settings = {"OPENAI_MODEL": model, "OPENSKILL_AGENT_TEXT_CALLS": "1" if is_prompted else "0"}
    with tempfile.TemporaryDirectory() as folder:
        skills = shipped(Path(folder) / "skills")
        settings |= {"OPENSKILL_RESEARCH_PROVIDER": "folder", "OPENSKILL_RESEARCH_FOLDER": folder}
        with Agent([skills], manifests, between.url, **settings) as agent:
            count = sum(len(it.definitions) for it in servers.tools.values())
            # One needs a setting of the operator.
            own = [it for it in manifests_of(skills) if it.stem != "microsandbox_install_package"]
            all_skills = [it for it in agent.wait_for_skills(count + len(own)) if it["status"] == "available"]
            rows = evaluate(agent, between, [it for it in all_skills if only.search(it["id"])], model)
    print_table(rows, model)
    return 0


def manifests_of(folder: Path) -> list[Path]:
    return [it for it in folder.rglob("*.yaml") if it.name != "toolset.yaml"]


def evaluate(agent: Agent, between: Between, skills: list[dict], model: str) -> dict[str, Counter]:
    """The counts by toolset."""
    rows: dict[str, Counter] = {}
    # The agent has a tool of its own with this name.
    for skill in [it for it in skills if it["id"] != "ask_user"]:
        row = rows.setdefault(skill["toolset"], Counter())
        between.is_bare = False
        what, refused = outcome(agent, skill, model)
        row["tools"] += 1
        row[what if refused == 0 else "first refused"] += 1
        if refused:
            row["after feedback"] += what in ("valid", "repaired")
            between.is_bare = True
            row["after bare error"] += outcome(agent, skill, model)[0] in ("valid", "repaired")
        print(f"{skill['id']}: {what}, refused {refused} times", file=sys.stderr, flush=True)
    return rows


COLUMNS = ["tools", "no such call", "valid", "repaired", "first refused", "after feedback", "after bare error"]


def print_table(rows: dict[str, Counter], model: str) -> None:
    print(f"Model: {model}\n")
    print("| toolset | tools | never called | valid at once | valid after repairs | refused at first | of these valid after feedback | after a bare error |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    rows = {**rows, "all": sum(rows.values(), Counter())}
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(str(row[it]) for it in COLUMNS)} |")


if __name__ == "__main__":
    sys.exit(main())
