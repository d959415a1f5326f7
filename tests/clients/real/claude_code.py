"""Claude Code from claude-agent-sdk, before a Messages server that follows a script: no model, and no network."""
import asyncio
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

import stage
from stage import SEEN

PREFIX = "mcp__openskill__"


class Messages(BaseHTTPRequestHandler):
    """Calls the tool that the last user message names, and then says what it returned."""

    offered, returned = set(), []

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    do_GET = do_HEAD

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "count_tokens" in self.path:
            return self.answer("application/json", json.dumps({"input_tokens": 1}))
        tools = {tool["name"] for tool in request.get("tools", [])}
        Messages.offered |= tools
        last = request["messages"][-1]["content"]
        blocks = last if isinstance(last, list) else [{"type": "text", "text": last}]
        results = [block for block in blocks if block["type"] == "tool_result"]
        asked = [block["text"].split("TOOL:")[1].split()[0] for block in blocks if "TOOL:" in block.get("text", "")]
        if results:
            Messages.returned.append(json.dumps(results))
        if asked and PREFIX + asked[-1] in tools:
            block = {"type": "tool_use", "id": f"toolu_{len(Messages.returned)}", "name": PREFIX + asked[-1], "input": {}}
            self.stream(block, {"type": "input_json_delta", "partial_json": "{}"}, "tool_use")
        else:
            self.stream({"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn")

    def stream(self, block, delta, reason):
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        events = [
            {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        self.answer("text/event-stream", "".join(f"event: {it['type']}\ndata: {json.dumps(it)}\n\n" for it in events))

    def answer(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


async def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Messages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = tempfile.mkdtemp(prefix="openskill-claude-")
    environment = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "HOME": home,
        "CLAUDE_CONFIG_DIR": home,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    names = ("test_simple_text", "test_tool_with_progress", "slow", "added")
    options = ClaudeAgentOptions(
        mcp_servers={"openskill": {"type": "http", "url": stage.URL}},
        allowed_tools=[PREFIX + name for name in names],
        env=environment,
        cwd=home,
        setting_sources=[],
    )
    async with ClaudeSDKClient(options=options) as client:

        async def ask(tool):
            await client.query(f"TOOL:{tool} please")
            async for _ in client.receive_response():
                pass

        async def returns(tool, text):
            # It connects to servers, and hears of their changes, while it talks.
            for _ in range(20):
                await ask(tool)
                if any(text in it for it in Messages.returned):
                    return True
                await asyncio.sleep(0.5)
            return False

        SEEN["call"] = await returns("test_simple_text", "simple text")
        SEEN["list"] = PREFIX + "test_simple_text" in Messages.offered

        async def interrupt(task):
            await client.interrupt()

        SEEN["cancel"] = await stage.cancelled(ask("slow"), interrupt)
        stage.add_skill()
        SEEN["new"] = PREFIX + "added" not in Messages.offered and await returns("added", "it is new")


stage.run(main)
