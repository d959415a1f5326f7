"""An MCP server with one tool, on stdio."""

from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
def echo(text: str) -> dict:
    """Gives a text back."""
    return {"echoed": text}


server.run(show_banner=False)
