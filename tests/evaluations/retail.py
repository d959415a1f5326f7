"""tau2's retail tasks: the agent makes the calls of each solution, and the shop must end as the solution leaves it."""

import json
import os
import sys
from collections import Counter

from loguru import logger

logger.remove()

from tau2.domains.retail.environment import get_environment, get_tasks
from tau2.environment.toolkit import ToolType

from agent import Agent, mcp
from servers import Reply, Servers, ToolFailed, new_results


class Shop:
    """The retail environment of tau2 as an MCP server, and a model that knows the solution of the current task."""

    def __init__(self) -> None:
        tools = get_environment().get_tools()
        functions = [it.openai_schema["function"] for it in tools]
        self.definitions = [
            {"name": it["name"], "description": it["description"], "inputSchema": it["parameters"]} for it in functions
        ]

    def begin(self, task) -> None:
        self.environment = get_environment()
        self.actions = list(task.evaluation_criteria.actions or [])
        self.counts: Counter = Counter()

    def call(self, name: str, arguments: dict) -> str:
        self.counts["calls"] += 1
        writes = self.environment.tools.tool_type(name) == ToolType.WRITE
        before = writes and self.environment.get_db_hash()
        try:
            return self.environment.to_json_str(self.environment.make_tool_call(name, **arguments))
        except Exception as error:
            raise ToolFailed(str(error)) from error
        finally:
            self.counts["changes"] += writes and self.environment.get_db_hash() != before

    def reply(self, request: dict) -> Reply:
        self.counts["failed"] += sum('"status":"error"' in it for it in new_results(request))
        if not self.actions or request.get("tool_choice") == "none":
            return Reply(text="It is done.")
        action = self.actions.pop(0)
        return Reply(calls=[(f"retail__{action.name}", action.arguments)])

    def allow(self, _: dict) -> dict:
        self.counts["approved"] += 1
        return {"decision": "allow"}


def solved(task):
    """The environment after the solution, without any agent."""
    environment = get_environment()
    for action in task.evaluation_criteria.actions or []:
        try:
            environment.make_tool_call(action.name, requestor=action.requestor, **action.arguments)
        except Exception:
            # As in tau2 itself: some solutions look for what is not there.
            pass
    return environment


def main() -> int:
    tasks = get_tasks()[: int(os.environ.get("LIMIT", "1000"))]
    shop, servers = Shop(), Servers()
    servers.tools["retail"], servers.models["retail"] = shop, shop.reply
    toolkit = get_environment().tools
    reads = {it["name"] for it in shop.definitions if toolkit.tool_type(it["name"]) == ToolType.READ} | {"calculate"}
    manifest = mcp("retail", servers.url("/mcp/retail"), {name: {"read_only": True} for name in reads})
    total, equal = Counter(), 0
    with Agent([], [manifest], servers.url("/v1")) as agent:
        agent.wait_for_skills(len(shop.definitions))
        for task in tasks:
            shop.begin(task)
            message = {"text": task.user_scenario.instructions.reason_for_call, "model": "retail", "toolset": "retail"}
            _, done = agent.converse(message, shop.allow)
            is_equal = shop.environment.get_db_hash() == solved(task).get_db_hash() and done["end"] == "completed"
            equal += is_equal
            total += shop.counts
            if not is_equal:
                print(f"task {task.id}: {json.dumps(done)} {dict(shop.counts)}", file=sys.stderr)
    print("| tasks | end state equal | calls | of them approved by the user | that changed the shop | that failed as in the solution |")
    print("|---|---|---|---|---|---|")
    print(f"| {len(tasks)} | {equal} | {total['calls']} | {total['approved']} | {total['changes']} | {total['failed']} |")
    return 0 if equal == len(tasks) and total["approved"] >= total["changes"] else 1


if __name__ == "__main__":
    sys.exit(main())
