"""The client of FastMCP."""
import json

from fastmcp import Client

import stage
from stage import SEEN


async def main():
    changes, progress = [], []

    async def hear(message):
        if "ListChanged" in type(getattr(message, "root", message)).__name__:
            changes.append(message)

    async def answered(message, response_type, params, context):
        return stage.ANSWER

    async def reported(done, total, message):
        progress.append(done)

    async with Client(stage.URL, elicitation_handler=answered, message_handler=hear) as client:
        SEEN["list"] = any(tool.name == "test_simple_text" for tool in await client.list_tools())
        called = await client.call_tool("test_simple_text", {})
        SEEN["call"] = called.content[0].type == "text"
        await client.call_tool("test_tool_with_progress", {}, progress_handler=reported)
        SEEN["progress"] = len(progress) >= 2
        asked = await client.call_tool("asks", stage.QUESTION)
        SEEN["question"] = json.loads(asked.content[0].text) == stage.ANSWER
        SEEN["cancel"] = await stage.cancelled(client.call_tool("slow", {}), stage.end_task)

        async def names():
            return [tool.name for tool in await client.list_tools()]

        SEEN["new"] = await stage.noticed(changes, names)


stage.run(main)
