"""Lists tools, calls them, gets progress and answers a question with the MCP library: over HTTP, at the newest revision and an older one, and over
stdio."""
import asyncio
import json
import sys

from mcp import Client, StdioServerParameters, types

URL, BINARY = sys.argv[1], sys.argv[2]


async def see(server, mode):
    progress = []

    async def reported(done, total, message):
        progress.append(done)

    async def answered(context, params):
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with Client(server, mode=mode, elicitation_callback=answered) as client:
        tools = (await client.list_tools()).tools
        listed = any(tool.name == "test_simple_text" for tool in tools)
        await client.call_tool("test_tool_with_progress", {}, progress_callback=reported)
        failed = await client.call_tool("test_error_handling", {})
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        asked = await client.call_tool("asks", {"message": "Who?", "schema": schema})
        return {
            "listed": listed,
            "progress": progress,
            "is_error": failed.is_error,
            "answer": json.loads(asked.content[0].text),
        }


async def main():
    stdio = StdioServerParameters(command=BINARY, args=["mcp", "--gateway", URL.removesuffix("/mcp")])
    seen = {}
    for mode in ("auto", "legacy"):
        for way, server in (("http", URL), ("stdio", stdio)):
            now = await see(server, mode)
            assert seen.setdefault(way, now) == now, (mode, way, now)
    print(json.dumps(seen))


asyncio.run(main())
