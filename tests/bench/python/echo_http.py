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
more = int(sys.argv[1])
for number in range(more):
    # The last one's tells that the list is whole.
    description = os.environ["BENCH_TEXT"] if number + 1 == more else "Gives a text back."
    server.tool(echo, name=f"tool_{number}", description=description)

if __name__ == "__main__":
    port = int(os.environ["BENCH_PORT"])
    server.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
