"""The MCP library before 2.0, over HTTP; or over stdio, if a program is named."""
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

import stage
from stage import SEEN

PROGRAM = sys.argv[4:]


async def see(session, changes, can_answer):
    tools = (await session.list_tools()).tools
    SEEN["list"] = any(tool.name == "test_simple_text" for tool in tools)
    called = await session.call_tool("test_simple_text", {})
    SEEN["call"] = not called.isError and called.content[0].type == "text"
    progress = []

    async def reported(done, total, message=None):
        progress.append(done)

    await session.call_tool("test_tool_with_progress", {}, progress_callback=reported)
    SEEN["progress"] = len(progress) >= 2 and progress == sorted(progress)
    if can_answer:
        asked = await session.call_tool("asks", stage.QUESTION)
        # A proxy need not pass questions on. Then it does not say that it can ask.
        if "ASK_USER_UNAVAILABLE" not in json.dumps(asked.model_dump(mode="json")):
            SEEN["question"] = json.loads(asked.content[0].text) == stage.ANSWER
    number = session._request_id

    async def cancel(task):
        params = types.CancelledNotificationParams(requestId=number)
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await session.send_notification(types.ClientNotification(notification))

    SEEN["cancel"] = await stage.cancelled(session.call_tool("slow", {}), cancel)

    async def names():
        return [tool.name for tool in (await session.list_tools()).tools]

    SEEN["new"] = await stage.noticed(changes, names)


async def main():
    changes = []

    async def hear(message):
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            changes.append(message)

    async def answered(context, params):
        return types.ElicitResult(action="accept", content=stage.ANSWER)

    can_answer = hasattr(types, "ElicitResult")
    more = {"elicitation_callback": answered} if can_answer else {}
    if PROGRAM:
        opened = stdio_client(StdioServerParameters(command=PROGRAM[0], args=PROGRAM[1:]))
    else:
        opened = streamablehttp_client(stage.URL)
    async with opened as streams:
        async with ClientSession(streams[0], streams[1], message_handler=hear, **more) as session:
            await session.initialize()
            await see(session, changes, can_answer)


stage.run(main)
