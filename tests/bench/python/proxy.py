"""A FastMCP proxy over streamable HTTP, made as its documentation makes one, in front of the MCP server on stdio."""

import os
import sys
from pathlib import Path

from fastmcp.server import create_proxy

server = {"command": sys.executable, "args": [str(Path(__file__).parent / "echo_server.py")]}
proxy = create_proxy({"mcpServers": {"echo": server}}, name="proxy")

if __name__ == "__main__":
    port = int(os.environ["BENCH_PORT"])
    proxy.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
