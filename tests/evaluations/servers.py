"""What an evaluation serves from its own process: models that follow a script, and MCP servers with tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from threading import Thread
from typing import Callable, Protocol


@dataclass
class Reply:
    """What a model answers: a text, or calls as (name, arguments)."""

    text: str = ""
    calls: list[tuple[str, dict]] = field(default_factory=list)


class ToolFailed(Exception):
    """A tool failed; its message is for the model."""


class Tools(Protocol):
    """The tools of an MCP server."""

    definitions: list[dict]

    def call(self, name: str, arguments: dict) -> str:
        """Runs a tool. Raises ToolFailed."""


class Servers:
    """One HTTP server on a free port: `/v1` for models by name, and `/mcp/<name>` for each of the MCP servers."""

    def __init__(self) -> None:
        self.models: dict[str, Callable[[dict], Reply]] = {}
        self.tools: dict[str, Tools] = {}
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.servers = self
        Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece: otherwise the client's delayed acknowledgement costs 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        servers: Servers = self.server.servers
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/chat/completions":
            self.answer(200, "text/event-stream", frames(servers.models[body["model"]](body)))
        elif "id" not in body:
            self.answer(202, "application/json", b"")
        else:
            result = respond(servers.tools[self.path.removeprefix("/mcp/")], body)
            text = json.dumps({"jsonrpc": "2.0", "id": body["id"], **result})
            self.answer(200, "application/json", text.encode())

    def do_GET(self) -> None:
        # No stream from the server to the client.
        self.answer(405, "text/plain", b"")

    do_DELETE = do_GET

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def new_results(request: dict) -> list[str]:
    """The results that a request to a model ends with."""
    messages = [it for it in reversed(request["messages"]) if it["role"] != "system"]
    return [it["content"] for it in takewhile(lambda it: it["role"] == "tool", messages)]


def frames(reply: Reply) -> bytes:
    """A reply as a chat completion, streamed."""
    delta: dict = {"content": reply.text}
    if reply.calls:
        calls = [
            {"index": i, "id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for i, (name, arguments) in enumerate(reply.calls)
        ]
        delta = {"tool_calls": calls}
    reason = "tool_calls" if reply.calls else "stop"
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


def respond(tools: Tools, request: dict) -> dict:
    """The result or error of a JSON-RPC request to an MCP server."""
    params = request.get("params", {})
    method = request["method"]
    if method == "initialize":
        info = {"name": "evaluation", "version": "1.0.0"}
        version = params["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": tools.definitions}}
    if method == "tools/call":
        try:
            text, failed = tools.call(params["name"], params.get("arguments") or {}), False
        except ToolFailed as error:
            text, failed = str(error), True
        return {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"there is no method {method}"}}
