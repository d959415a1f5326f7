"""A FastMCP server over streamable HTTP, made as its documentation makes one: an echo, and as many tools more to list as
its argument says."""

import os
import sys

from fastmcp import FastMCP

server = FastMCP("echo")


def echo(text: str) -> dict:
    """Gives a text back."""
    return {"echoed": text}


server.tool(echo)
for number in range(int(sys.argv[1])):
    server.tool(echo, name=f"tool_{number}", description=os.environ["BENCH_TEXT"])

if __name__ == "__main__":
    port = int(os.environ["BENCH_PORT"])
    server.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
