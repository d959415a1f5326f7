"""An MCP server with one tool: on stdio, or over streamable HTTP at the port that is its argument."""

import sys

from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
def echo(text: str) -> dict:
    """Gives a text back."""
    return {"echoed": text}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        port = int(sys.argv[1])
        server.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="warning")
    else:
        server.run(show_banner=False)
