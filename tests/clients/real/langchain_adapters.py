"""langchain-mcp-adapters: MCP tools as tools of LangChain."""
import json

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult

import stage
from stage import SEEN


async def main():
    progress = []

    async def reported(done, total, message, context):
        progress.append(done)

    async def answered(mcp_context, params, context):
        return ElicitResult(action="accept", content=stage.ANSWER)

    callbacks = Callbacks(on_progress=reported, on_elicitation=answered)
    server = {"transport": "streamable_http", "url": stage.URL}
    client = MultiServerMCPClient({"openskill": server}, callbacks=callbacks)

    async def tools():
        return {tool.name: tool for tool in await client.get_tools()}

    found = await tools()
    SEEN["list"] = "test_simple_text" in found
    SEEN["call"] = bool(await found["test_simple_text"].ainvoke({}))
    await found["test_tool_with_progress"].ainvoke({})
    SEEN["progress"] = len(progress) >= 2
    asked = await found["asks"].ainvoke(stage.QUESTION)
    SEEN["question"] = stage.ANSWER["name"] in json.dumps(asked, default=str)
    SEEN["cancel"] = await stage.cancelled(found["slow"].ainvoke({}), stage.end_task)
    # It has no connection between calls, so nothing tells it of changes: it lists again.
    SEEN["new"] = await stage.noticed([], tools)


stage.run(main)
