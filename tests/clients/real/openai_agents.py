"""openai-agents: an agent whose model is a script calls MCP tools."""
import json

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import stage
from stage import SEEN


class Script(Model):
    """Calls one tool, and then says what it returned."""

    def __init__(self, tool):
        self.tool, self.offered = tool, []

    async def get_response(self, system_instructions, input, model_settings, tools, *args, **more):
        self.offered = [tool.name for tool in tools]
        outputs = [it for it in input if isinstance(it, dict) and it.get("type") == "function_call_output"]
        if outputs:
            text = ResponseOutputText(type="output_text", text=json.dumps(outputs[-1]["output"], default=str), annotations=[])
            said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            said = ResponseFunctionToolCall(id="f", call_id="c", type="function_call", name=self.tool, arguments="{}")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args, **more):
        raise NotImplementedError("this script does not stream")


async def main():
    set_tracing_disabled(True)
    changes = []

    async def hear(message):
        if "ListChanged" in type(getattr(message, "root", message)).__name__:
            changes.append(message)

    params = {"url": stage.URL}
    async with MCPServerStreamableHttp(params, client_session_timeout_seconds=60, message_handler=hear) as server:

        async def ask(tool):
            model = Script(tool)
            result = await Runner.run(Agent(name="a", model=model, mcp_servers=[server]), "go")
            return model.offered, result.final_output

        offered, said = await ask("test_simple_text")
        SEEN["list"], SEEN["call"] = "test_simple_text" in offered, "simple text" in said
        SEEN["cancel"] = await stage.cancelled(ask("slow"), stage.end_task)

        async def names():
            return (await ask("test_simple_text"))[0]

        SEEN["new"] = await stage.noticed(changes, names)


stage.run(main)
