"""A FastMCP proxy over streamable HTTP, made as its documentation makes one: before the MCP server on stdio, which it keeps, or
before the one at the URL that is its argument, with which it begins a session for each request."""

import os
import sys
from pathlib import Path

from fastmcp.server import create_proxy

stdio = {"mcpServers": {"echo": {"command": sys.executable, "args": [str(Path(__file__).parent / "echo_server.py")]}}}
proxy = create_proxy(sys.argv[1] if len(sys.argv) > 1 else stdio, name="proxy")

if __name__ == "__main__":
    port = int(os.environ["BENCH_PORT"])
    proxy.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
