"""A FastMCP proxy over streamable HTTP, made as its documentation makes one, in front of an MCP server on stdio or, with the
argument `http`, over HTTP."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from fastmcp.server import create_proxy

HERE = Path(__file__).parent


def behind() -> dict:
    """The server. It ends with the process group."""
    if sys.argv[1:] != ["http"]:
        return {"command": sys.executable, "args": [str(HERE / "echo_server.py")]}
    # Bound and not listening: nobody else gets the port, and the server may bind it too.
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port = reserved.getsockname()[1]
    server = subprocess.Popen([sys.executable, HERE / "echo_http.py", "0"], env={**os.environ, "BENCH_PORT": str(port)})
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            reserved.close()
            return {"url": f"http://127.0.0.1:{port}/mcp"}
        except OSError:
            if server.poll() is not None:
                sys.exit("the server behind the proxy ended")
            time.sleep(0.05)


if __name__ == "__main__":
    proxy = create_proxy({"mcpServers": {"echo": behind()}}, name="proxy")
    port = int(os.environ["BENCH_PORT"])
    proxy.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
