#!/usr/bin/env python3
import json
import sys

TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1.0.0"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    else:
        result = {"content": [], "structuredContent": {"echoed": params.get("arguments", {}).get("text")}}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
