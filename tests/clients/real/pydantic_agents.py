"""pydantic-ai: an agent whose model is a script calls MCP tools."""
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

import stage
from stage import SEEN


async def main():
    changes, progress, offered = [], [], set()

    async def hear(message):
        if "ListChanged" in type(getattr(message, "root", message)).__name__:
            changes.append(message)

    async def reported(done, total, message):
        progress.append(done)

    async def answered(message, response_type, params, context):
        return stage.ANSWER

    def script(tool, arguments):
        def reply(messages, info):
            offered.update(it.name for it in info.function_tools)
            returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
            if returned:
                return ModelResponse(parts=[TextPart(str(returned[0].content))])
            return ModelResponse(parts=[ToolCallPart(tool, arguments)])

        return FunctionModel(reply)

    # It listens for no changes, so it must not keep the list.
    more = {"read_timeout": 60, "cache_tools": False}
    tools = MCPToolset(
        stage.URL, elicitation_handler=answered, progress_handler=reported, message_handler=hear, **more
    )

    async with tools:

        async def ask(tool, arguments=None):
            agent = Agent(script(tool, arguments or {}), toolsets=[tools])
            return (await agent.run("go")).output

        SEEN["call"] = "simple text" in await ask("test_simple_text")
        SEEN["list"] = "test_simple_text" in offered
        await ask("test_tool_with_progress")
        SEEN["progress"] = len(progress) >= 2
        SEEN["question"] = stage.ANSWER["name"] in await ask("asks", stage.QUESTION)
        SEEN["cancel"] = await stage.cancelled(ask("slow"), stage.end_task)

        async def names():
            await ask("test_simple_text")
            return offered

        SEEN["new"] = await stage.noticed(changes, names)


stage.run(main)
