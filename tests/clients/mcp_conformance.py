"""Drives a gateway through the server scenarios of the MCP conformance suite, by raw requests.

    python mcp_conformance.py http://127.0.0.1:8000/mcp SCHEMAS [SCENARIO ...]

SCHEMAS is a folder with the JSON Schemas of the protocol: schema-2025-11-25.json, schema-2026-07-28.json, schema-tasks.json.
Every message of the server is validated by the schema of its revision, which needs jsonschema; with - as SCHEMAS none is.
Prints one line per scenario, and its faults. The gateway serves tests/fixtures/mcp_face and worker/skills.
"""
import http.client
import json
import sys
import threading
import time
import traceback
from pathlib import Path
from urllib.parse import urlsplit

OLD, NEW = "2025-11-25", "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"

RESULTS = {
    "initialize": "InitializeResult", "server/discover": "DiscoverResult", "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult", "tools/list": "ListToolsResult", "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult", "resources/subscribe": "EmptyResult", "resources/unsubscribe": "EmptyResult",
    "prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
    "tasks/get": "GetTaskResult", "tasks/update": "UpdateTaskResult", "tasks/cancel": "CancelTaskResult",
}
NOTIFICATIONS = {
    "notifications/message": "LoggingMessageNotification", "notifications/progress": "ProgressNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}
REQUESTS = {
    "elicitation/create": "ElicitRequest", "sampling/createMessage": "CreateMessageRequest", "roots/list": "ListRootsRequest",
}


class Schemas:
    def __init__(self, folder):
        self.are_given = folder != "-"
        if not self.are_given:
            return
        read = lambda name: json.loads((Path(folder) / f"schema-{name}.json").read_text())
        self._all = {name: read(name) for name in (OLD, NEW, "tasks")}
        self._validators = {}

    def check(self, schema, name, value):
        """Why the value does not fit the definition; none if it does."""
        if not self.are_given:
            return None
        import jsonschema

        if (schema, name) not in self._validators:
            whole = self._all[schema]
            place = "$defs" if "$defs" in whole else "definitions"
            assert name in whole[place], f"{schema} has no {name}"
            root = {"$ref": f"#/{place}/{name}", place: whole[place]}
            kind = jsonschema.Draft202012Validator if place == "$defs" else jsonschema.Draft7Validator
            self._validators[schema, name] = kind(root)
        error = next(iter(self._validators[schema, name].iter_errors(value)), None)
        return None if error is None else f"{name}: {error.json_path}: {error.message[:200]}"


class Answer:
    def __init__(self, status, headers, messages):
        self.status, self.headers, self.messages = status, headers, messages
        finals = [it for it in messages if "method" not in it]
        self.final = finals[-1] if finals else {}

    @property
    def result(self):
        assert "result" in self.final, f"HTTP {self.status}: {json.dumps(self.final)[:400]}"
        return self.final["result"]

    @property
    def error(self):
        assert "error" in self.final, f"expected an error: {json.dumps(self.final)[:300]}"
        return self.final["error"]


class Client:
    """A client of one revision. Every message it gets is validated."""

    def __init__(self, suite, revision, capabilities=None, begins=True):
        self.suite, self.revision = suite, revision
        self.capabilities = {"elicitation": {}, "sampling": {}, "roots": {}} if capabilities is None else capabilities
        self.session, self.answers, self.asked, self._id = None, {}, [], 0
        if revision == OLD and begins:
            info = {"name": "driver", "version": "1"}
            params = {"protocolVersion": OLD, "capabilities": self.capabilities, "clientInfo": info}
            answer = self.send("initialize", params)
            self.began, self.session = answer.result, answer.headers.get("mcp-session-id")
            self.send("notifications/initialized", is_request=False)

    def send(self, method, params=None, headers=None, meta=None, is_request=True, stop=None, raw=None, timeout=60):
        """Sends a message. `stop`: when to leave a stream that does not end, a function of the messages so far."""
        self._id += 1
        params = dict(params or {})
        if self.revision == NEW:
            own = {META + "protocolVersion": NEW, META + "clientCapabilities": self.capabilities}
            params["_meta"] = {**own, **(meta or {}), **params.get("_meta", {})} if meta is not False else params.get("_meta")
            params = {key: value for key, value in params.items() if value is not None or key != "_meta"}
        elif meta:
            params["_meta"] = meta
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if is_request:
            message["id"] = self._id
        return self.post(message if raw is None else raw, method, headers, stop, timeout)

    def post(self, message, method="", headers=None, stop=None, timeout=60):
        params = message.get("params") or {}
        sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session:
            sent["mcp-session-id"] = self.session
        if self.revision == NEW:
            sent["mcp-protocol-version"] = (params.get("_meta") or {}).get(META + "protocolVersion", NEW)
            sent["mcp-method"] = method
            name = params.get("name") or params.get("uri") or params.get("taskId")
            if name:
                sent["mcp-name"] = name
        elif self.session:
            sent["mcp-protocol-version"] = OLD
        sent.update(headers or {})
        connection = http.client.HTTPConnection(self.suite.host, timeout=timeout)
        connection.request("POST", self.suite.path, json.dumps(message), {k: v for k, v in sent.items() if v is not None})
        sock = connection.sock
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        messages = []
        if found.get("content-type", "").startswith("text/event-stream"):
            for message_of_stream in events(sock, response, timeout):
                messages.append(message_of_stream)
                self.received(message_of_stream, method, message.get("id"))
                if (stop and stop(messages)) or ("method" not in message_of_stream):
                    break
            connection.close()
        else:
            body = response.read()
            # What is refused before the protocol, for its host or origin, is not a message of the protocol.
            if body and response.status != 403:
                messages.append(json.loads(body))
                self.received(messages[0], method, message.get("id"))
            connection.close()
        return Answer(response.status, found, messages)

    def received(self, message, method, id):
        check = lambda schema, name, value: self.suite.fault(self.suite.schemas.check(schema, name, value))
        name = message.get("method")
        if name and "id" in message:
            self.suite.expect(self.revision == OLD, "a request on a stream of the newest revision")
            check(self.revision, REQUESTS[name], message)
            self.asked.append(message)
            reply = self.answers[name](message["params"]) if name in self.answers else None
            body = {"result": reply} if reply is not None else {"error": {"code": -1, "message": "no"}}
            self.post({"jsonrpc": "2.0", "id": message["id"], **body})
        elif name:
            check(self.revision, NOTIFICATIONS[name], message)
        elif "error" in message:
            self.suite.expect("id" not in message or message["id"] == id, f"the id of an error is {message.get('id')}, not {id}")
            check(self.revision, "JSONRPCErrorResponse", message)
        else:
            self.suite.expect(message.get("id") == id, "the id of a result is another")
            result = message["result"]
            kind = result.get("resultType")
            if kind == "input_required":
                check(self.revision, "InputRequiredResult", result)
            elif kind == "task":
                check("tasks", "CreateTaskResult", result)
            elif method.startswith("tasks/"):
                check("tasks", RESULTS[method], result)
            elif method in RESULTS:
                check(self.revision, RESULTS[method], result)
            if self.revision == NEW and kind is None:
                self.suite.fault(f"{method}: the result has no resultType")

    def call(self, name, arguments=None, **more):
        extra = {key: more.pop(key) for key in ("inputResponses", "requestState", "task") if key in more}
        return self.send("tools/call", {"name": name, "arguments": arguments or {}, **extra}, **more)

    def tools(self):
        return {tool["name"]: tool for tool in self.send("tools/list").result["tools"]}


def events(sock, response, timeout):
    """The messages of a stream, which may take `timeout` seconds in all: comments that keep it open do not prolong it."""
    data, until = [], time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the stream goes on after {timeout} s")
        sock.settimeout(left)
        line = response.readline()
        if not line:
            return
        line = line.decode().rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line and data:
            text = "\n".join(data)
            data = []
            if text:
                yield json.loads(text)


class Suite:
    def __init__(self, url, schemas):
        parts = urlsplit(url)
        self.host, self.path, self.schemas = parts.netloc, parts.path, Schemas(schemas)
        self.faults = []

    def fault(self, fault):
        if fault:
            self.faults.append(fault)

    def expect(self, condition, fault):
        self.fault(None if condition else fault)


SCENARIOS = []


def scenario(name, *revisions):
    def add(function):
        for revision in revisions:
            SCENARIOS.append((name, revision, function))
        return function
    return add


def text_of(result):
    return "".join(block.get("text", "") for block in result["content"])


def accept(**content):
    return {"action": "accept", "content": content}


SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test-model", "stopReason": "endTurn"}
FOLDERS = {"roots": [{"uri": "file:///test/root", "name": "Test Root"}]}


# Lifecycle.

@scenario("server-initialize", OLD)
def _(s, client):
    s.expect(client.began["protocolVersion"] == OLD, "another revision")
    s.expect(all(0x21 <= ord(it) <= 0x7E for it in client.session or "x"), "the session id has other characters")


@scenario("server-session-lifecycle", OLD)
def _(s, client):
    connection = http.client.HTTPConnection(s.host)
    connection.request("DELETE", s.path, headers={"mcp-session-id": client.session})
    s.expect(connection.getresponse().status in (200, 202, 204), "DELETE is refused")
    s.expect(client.send("tools/list").status == 404, "the session goes on")


@scenario("logging-set-level", OLD)
def _(s, client):
    s.expect(client.send("logging/setLevel", {"level": "info"}).result == {}, "not empty")


@scenario("ping", OLD)
def _(s, client):
    s.expect(client.send("ping").result == {}, "not empty")


@scenario("server-stateless", NEW)
def _(s, client):
    own = {META + "protocolVersion": NEW, META + "clientCapabilities": {}}
    for key in (None, META + "protocolVersion", META + "clientCapabilities"):
        meta = {name: value for name, value in own.items() if name != key} if key else None
        message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta} if meta else {}}
        answer = client.post(message, "server/discover")
        s.expect((answer.status, answer.error["code"]) == (400, -32602), f"without {key}: {answer.status} {answer.error}")
    found = client.send("server/discover").result
    s.expect(NEW in found["supportedVersions"], "the revision is not supported")
    s.expect(found["_meta"][META + "serverInfo"]["name"], "no server info")
    for name in ("tools", "prompts", "resources", "completions"):
        s.expect(name in found["capabilities"], f"{name} is not declared")
    answer = client.send("server/discover", meta={META + "protocolVersion": "v999.0.0"})
    data = answer.error["data"]
    s.expect((answer.status, answer.error["code"], data["requested"]) == (400, -32022, "v999.0.0"), f"version: {answer.error}")
    s.expect(set(data["supported"]) <= set(found["supportedVersions"]), "other versions are supported")
    for headers in ({"mcp-protocol-version": None}, {"mcp-protocol-version": OLD}):
        answer = client.send("server/discover", headers=headers)
        s.expect((answer.status, answer.error["code"]) == (400, -32020), f"{headers}: {answer.status} {answer.error}")
    answer = client.call("test_missing_capability", meta={META + "clientCapabilities": {}})
    s.expect((answer.status, answer.error["code"]) == (400, -32021), f"capability: {answer.status} {answer.error}")
    s.expect(answer.error["data"]["requiredCapabilities"] == {"sampling": {}}, f"capability: {answer.error}")
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "unknown/method"):
        answer = client.send(method, {"uri": "test://static-text"}, headers={"mcp-name": None})
        s.expect((answer.status, answer.error["code"]) == (404, -32601), f"{method}: {answer.status} {answer.error}")
    begun = time.monotonic()
    frames = client.call("test_streaming_elicitation").messages
    s.expect(frames and not any("id" in it and "method" in it for it in frames), "requests on the stream")
    s.expect(not s.schemas.are_given or time.monotonic() - begun < 0.6, f"test_streaming_elicitation took {time.monotonic() - begun:.2f} s")
    frames = client.call("test_logging_tool").messages
    s.expect(frames and not any(it.get("method") == "notifications/message" for it in frames), "log lines without a level")
    for kind, trigger in (("tools", "test_trigger_tool_change"), ("prompts", "test_trigger_prompt_change")):
        frames = listen(client, {f"{kind}ListChanged": True}, lambda: client.call(trigger), 2)
        s.expect(frames and frames[0]["method"] == "notifications/subscriptions/acknowledged", f"{kind}: no acknowledgement")
        s.expect([it["method"] for it in frames[1:]] == [f"notifications/{kind}/list_changed"], f"{kind}: {frames}")
        s.expect(all(META + "subscriptionId" in it["params"]["_meta"] for it in frames), f"{kind}: no subscription id")


def listen(client, notifications, then, count, timeout=15):
    """The first messages of a subscription, during which something is done."""
    frames, begun = [], threading.Event()

    def stop(messages):
        frames[:] = messages
        begun.set()
        return len(messages) >= count

    def run():
        try:
            client.send("subscriptions/listen", {"notifications": notifications}, stop=stop, timeout=timeout)
        except TimeoutError:
            pass
        finally:
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait(timeout)
    then()
    thread.join()
    return frames


# Tools.

@scenario("tools-list", OLD, NEW)
def _(s, client):
    for tool in client.send("tools/list").result["tools"]:
        s.expect(1 <= len(tool["name"]) <= 64 and tool["description"] is not None, f"{tool['name']}")


@scenario("tools-call-simple-text", OLD, NEW)
def _(s, client):
    s.expect(text_of(client.call("test_simple_text").result) == "This is a simple text response for testing.", "the text")


@scenario("tools-call-image", OLD, NEW)
def _(s, client):
    block = client.call("test_image_content").result["content"][0]
    s.expect((block["type"], block["mimeType"]) == ("image", "image/png") and block["data"], f"{block}")


@scenario("tools-call-audio", OLD, NEW)
def _(s, client):
    block = client.call("test_audio_content").result["content"][0]
    s.expect((block["type"], block["mimeType"]) == ("audio", "audio/wav") and block["data"], f"{block}")


@scenario("tools-call-embedded-resource", OLD, NEW)
def _(s, client):
    block = client.call("test_embedded_resource").result["content"][0]
    s.expect(block["type"] == "resource" and block["resource"]["uri"] == "test://embedded-resource", f"{block}")


@scenario("tools-call-mixed-content", OLD, NEW)
def _(s, client):
    kinds = [block["type"] for block in client.call("test_multiple_content_types").result["content"]]
    s.expect(kinds == ["text", "image", "resource"], f"{kinds}")


@scenario("tools-call-with-logging", OLD)
def _(s, client):
    client.send("logging/setLevel", {"level": "info"})
    said = [it["params"]["data"] for it in client.call("test_tool_with_logging").messages[:-1]]
    s.expect(said == ["Tool execution started", "Tool processing data", "Tool execution completed"], f"{said}")


@scenario("tools-call-error", OLD, NEW)
def _(s, client):
    result = client.call("test_error_handling").result
    s.expect(result.get("isError") and "intentionally returns an error" in text_of(result), f"{result}")


@scenario("tools-call-with-progress", OLD, NEW)
def _(s, client):
    said = [it["params"] for it in client.call("test_tool_with_progress", meta={"progressToken": "p"}).messages[:-1]]
    s.expect([(it["progress"], it["total"], it["progressToken"]) for it in said] == [(0, 100, "p"), (50, 100, "p"), (100, 100, "p")], f"{said}")


@scenario("tools-call-sampling", OLD)
def _(s, client):
    client.answers["sampling/createMessage"] = lambda params: SAMPLE
    result = client.call("test_sampling", {"prompt": "Test prompt for sampling"}).result
    asked = client.asked[0]["params"]
    s.expect(asked["messages"][0]["content"]["text"] == "Test prompt for sampling" and asked["maxTokens"] == 100, f"{asked}")
    s.expect("Paris" in text_of(result), f"{result}")
    unable = Client(s, OLD, {}).call("test_sampling", {"prompt": "x"})
    s.expect(unable.final.get("error") or unable.result.get("isError"), "a client without a model gets no error")


@scenario("tools-call-elicitation", OLD)
def _(s, client):
    client.answers["elicitation/create"] = lambda params: accept(username="ada", email="ada@example.com")
    result = client.call("test_elicitation", {"message": "Who?"}).result
    s.expect(client.asked[0]["params"]["message"] == "Who?" and "ada@example.com" in text_of(result), f"{result}")


@scenario("elicitation-sep1034-defaults", OLD)
def _(s, client):
    client.answers["elicitation/create"] = lambda params: accept(name="Jane", age=25, score=88.0, status="inactive", verified=False)
    result = client.call("test_elicitation_sep1034_defaults").result
    fields = client.asked[0]["params"]["requestedSchema"]["properties"]
    defaults = {name: field["default"] for name, field in fields.items()}
    expected = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
    s.expect(defaults == expected and "action=accept" in text_of(result), f"{defaults} {result}")


@scenario("elicitation-sep1330-enums", OLD)
def _(s, client):
    client.answers["elicitation/create"] = lambda params: accept(
        untitledSingle="option1", titledSingle="value1", legacyEnum="opt1", untitledMulti=["option1"], titledMulti=["value1"])
    result = client.call("test_elicitation_sep1330_enums").result
    fields = client.asked[0]["params"]["requestedSchema"]["properties"]
    s.expect(len(fields["untitledSingle"]["enum"]) == 3 and "oneOf" not in fields["untitledSingle"], "untitledSingle")
    s.expect(all("title" in it for it in fields["titledSingle"]["oneOf"]), "titledSingle")
    s.expect(len(fields["legacyEnum"]["enumNames"]) == 3, "legacyEnum")
    s.expect(len(fields["untitledMulti"]["items"]["enum"]) == 3, "untitledMulti")
    s.expect(all("title" in it for it in fields["titledMulti"]["items"]["anyOf"]), "titledMulti")
    s.expect("action=accept" in text_of(result), f"{result}")


@scenario("json-schema-2020-12", OLD, NEW)
def _(s, client):
    schema = client.tools()["json_schema_2020_12_tool"]["inputSchema"]
    for key in ("$schema", "$defs", "additionalProperties", "allOf", "if", "then", "else"):
        s.expect(key in schema, f"{key} is lost")
    s.expect(schema["$defs"]["address"].get("$anchor") == "addressDef" and "anyOf" in schema["allOf"][0], "keywords are lost")


@scenario("server-sse-multiple-streams", OLD, NEW)
def _(s, client):
    clients = [client] + [Client(s, client.revision) for _ in range(2)]
    for it in clients:
        it.session = client.session
        it._id = id(it) % 100000
    results = [None] * 3

    def run(place):
        results[place] = clients[place].call("test_tool_with_progress", meta={"progressToken": str(place)})

    threads = [threading.Thread(target=run, args=(place,)) for place in range(3)]
    [it.start() for it in threads]
    [it.join() for it in threads]
    for place, answer in enumerate(results):
        s.expect(answer and all(it["params"]["progressToken"] == str(place) for it in answer.messages[:-1]), "streams are mixed")


@scenario("server-sse-polling", OLD)
def _(s, client):
    answer = client.call("test_tool_with_progress", meta={"progressToken": 1})
    s.expect(answer.result["content"], "no result")


# Resources and prompts.

@scenario("resources-list", OLD, NEW)
def _(s, client):
    found = {it["uri"]: it for it in client.send("resources/list").result["resources"]}
    s.expect(found.get("test://static-text", {}).get("name") and found["test://static-text"]["description"], f"{list(found)}")


@scenario("resources-read-text", OLD, NEW)
def _(s, client):
    contents = client.send("resources/read", {"uri": "test://static-text"}).result["contents"]
    expected = {"uri": "test://static-text", "mimeType": "text/plain", "text": "This is the content of the static text resource."}
    s.expect(contents == [expected], f"{contents}")


@scenario("resources-read-binary", OLD, NEW)
def _(s, client):
    content = client.send("resources/read", {"uri": "test://static-binary"}).result["contents"][0]
    s.expect(content["mimeType"] == "image/png" and content["blob"].startswith("iVBOR"), f"{content}")


@scenario("resources-templates-read", OLD, NEW)
def _(s, client):
    templates = [it["uriTemplate"] for it in client.send("resources/templates/list").result["resourceTemplates"]]
    s.expect("test://template/{id}/data" in templates, f"{templates}")
    content = client.send("resources/read", {"uri": "test://template/123/data"}).result["contents"][0]
    s.expect(json.loads(content["text"]) == {"id": "123", "templateTest": True, "data": "Data for ID: 123"}, f"{content}")


@scenario("resources-subscribe", OLD)
def _(s, client):
    s.expect(client.send("resources/subscribe", {"uri": "test://watched-resource"}).result == {}, "not empty")


@scenario("resources-unsubscribe", OLD)
def _(s, client):
    client.send("resources/subscribe", {"uri": "test://watched-resource"})
    s.expect(client.send("resources/unsubscribe", {"uri": "test://watched-resource"}).result == {}, "not empty")


@scenario("sep-2164-resource-not-found", NEW)
def _(s, client):
    uri = "test://nonexistent-resource-for-conformance-testing"
    error = client.send("resources/read", {"uri": uri}).error
    s.expect((error["code"], error["data"]) == (-32602, {"uri": uri}), f"{error}")


@scenario("prompts-list", OLD, NEW)
def _(s, client):
    found = {it["name"]: it for it in client.send("prompts/list").result["prompts"]}
    s.expect("test_simple_prompt" in found and all(it["description"] for it in found.values()), f"{list(found)}")
    s.expect([it["name"] for it in found["test_prompt_with_arguments"]["arguments"]] == ["arg1", "arg2"], "arguments")


def prompt(client, name, **arguments):
    return client.send("prompts/get", {"name": name, "arguments": arguments}).result["messages"]


@scenario("prompts-get-simple", OLD, NEW)
def _(s, client):
    messages = prompt(client, "test_simple_prompt")
    s.expect(messages == [{"role": "user", "content": {"type": "text", "text": "This is a simple prompt for testing."}}], f"{messages}")


@scenario("prompts-get-with-args", OLD, NEW)
def _(s, client):
    messages = prompt(client, "test_prompt_with_arguments", arg1="hello", arg2="world")
    s.expect(messages[0]["content"]["text"] == "Prompt with arguments: arg1='hello', arg2='world'", f"{messages}")


@scenario("prompts-get-embedded-resource", OLD, NEW)
def _(s, client):
    messages = prompt(client, "test_prompt_with_embedded_resource", resourceUri="test://example-resource")
    expected = {"uri": "test://example-resource", "mimeType": "text/plain", "text": "Embedded resource content for testing."}
    s.expect(messages[0]["content"] == {"type": "resource", "resource": expected} and len(messages) == 2, f"{messages}")


@scenario("prompts-get-with-image", OLD, NEW)
def _(s, client):
    content = prompt(client, "test_prompt_with_image")[0]["content"]
    s.expect((content["type"], content["mimeType"]) == ("image", "image/png") and content["data"], f"{content}")


@scenario("completion-complete", OLD, NEW)
def _(s, client):
    def complete(ref, name, value):
        return client.send("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}}).result["completion"]
    found = complete({"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "arg1", "par")
    s.expect(found["values"] == ["paris", "park", "party"] and found["total"] == 3, f"{found}")
    found = complete({"type": "ref/resource", "uri": "test://template/{id}/data"}, "id", "12")
    s.expect(found["values"] == ["12", "123"], f"{found}")


# HTTP.

@scenario("dns-rebinding-protection", OLD, NEW)
def _(s, client):
    for headers in ({"origin": "http://evil.example.com"}, {"host": "evil.example.com"}):
        s.expect(400 <= client.send("tools/list", headers=headers).status < 500, f"{headers} is accepted")
    s.expect(client.send("tools/list", headers={"origin": f"http://{s.host}"}).status == 200, "the own origin is refused")


@scenario("caching", NEW)
def _(s, client):
    for method, params in (("tools/list", {}), ("prompts/list", {}), ("resources/list", {}), ("resources/templates/list", {}),
                           ("resources/read", {"uri": "test://static-text"})):
        result = client.send(method, params).result
        s.expect(result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private"), f"{method}")


@scenario("http-header-validation", NEW)
def _(s, client):
    call = {"name": "test_simple_text", "arguments": {}}
    for method, params, headers, fits in (
        ("tools/list", {}, {"mcp-method": None}, False), ("tools/list", {}, {"mcp-method": "prompts/list"}, False),
        ("tools/list", {}, {"mcp-method": "TOOLS/LIST"}, False), ("tools/list", {}, {"mcp-method": "  tools/list  "}, True),
        ("tools/call", call, {"mcp-name": None}, False), ("tools/call", call, {"mcp-name": "other"}, False),
        ("resources/read", {"uri": "test://static-text"}, {"mcp-name": "test://other"}, False),
        ("prompts/get", {"name": "test_simple_prompt"}, {"mcp-name": "other"}, False),
    ):
        answer = client.send(method, params, headers=headers)
        code = answer.final.get("error", {}).get("code")
        s.expect((answer.status, code) == ((200, None) if fits else (400, -32020)), f"{method} {headers}: {answer.status} {code}")


@scenario("http-custom-header-server-validation", NEW)
def _(s, client):
    for region, header, fits in (("eu", "eu", True), ("eu", "=?base64?ZXU=?=", True), ("eu", "=?base64?ZXU?=", False),
                                 ("eu", "=?base64?!!!!?=", False), ("eu", None, False), ("eu", "us", False), ("ZXU=", "ZXU=", True)):
        answer = client.call("test_x_mcp_header", {"region": region}, headers={"mcp-param-region": header})
        code = answer.final.get("error", {}).get("code")
        s.expect((answer.status, code) == ((200, None) if fits else (400, -32020)), f"{region} {header}: {answer.status} {code}")


# Results that ask.

def asked(s, client, name, methods, **more):
    result = client.call(name, **more).result
    s.expect(result.get("resultType") == "input_required", f"{name}: {json.dumps(result)[:200]}")
    found = {key: it["method"] for key, it in result["inputRequests"].items()}
    s.expect(sorted(found.values()) == sorted(methods), f"{name}: {found}")
    return result


def back(client, name, result, **responses):
    return client.call(name, inputResponses=responses, requestState=result["requestState"])


A = "test_input_required_result_"


@scenario("input-required-result-basic-elicitation", NEW)
def _(s, client):
    first = asked(s, client, A + "elicitation", ["elicitation/create"])
    s.expect("user_name" in first["inputRequests"], f"{list(first['inputRequests'])}")
    s.expect(text_of(back(client, A + "elicitation", first, user_name=accept(name="Alice")).result) == "Hello, Alice!", "the text")


@scenario("input-required-result-basic-sampling", NEW)
def _(s, client):
    first = asked(s, client, A + "sampling", ["sampling/createMessage"])
    s.expect("Paris" in text_of(back(client, A + "sampling", first, capital_question=SAMPLE).result), "the text")


@scenario("input-required-result-basic-list-roots", NEW)
def _(s, client):
    first = asked(s, client, A + "list_roots", ["roots/list"])
    s.expect("file:///test/root" in text_of(back(client, A + "list_roots", first, client_roots=FOLDERS).result), "the roots")


@scenario("input-required-result-request-state", NEW)
def _(s, client):
    first = asked(s, client, A + "request_state", ["elicitation/create"])
    s.expect("state-ok" in text_of(back(client, A + "request_state", first, confirm=accept(ok=True)).result), "the text")


@scenario("input-required-result-multiple-input-requests", NEW)
def _(s, client):
    first = asked(s, client, A + "multiple_inputs", ["elicitation/create", "sampling/createMessage", "roots/list"])
    s.expect(first.get("requestState"), "no state")
    done = back(client, A + "multiple_inputs", first, user_name=accept(name="Alice"), greeting=SAMPLE, client_roots=FOLDERS)
    s.expect("Alice" in text_of(done.result) and "Test Root" in text_of(done.result), f"{done.result}")


@scenario("input-required-result-multi-round", NEW)
def _(s, client):
    first = asked(s, client, A + "multi_round", ["elicitation/create"])
    second = back(client, A + "multi_round", first, step1=accept(name="Alice")).result
    s.expect(second["resultType"] == "input_required" and second["requestState"] != first["requestState"], f"{second}")
    s.expect(text_of(back(client, A + "multi_round", second, step2=accept(color="blue")).result) == "Alice likes blue", "the text")


@scenario("input-required-result-missing-input-response", NEW)
def _(s, client):
    asked(s, client, A + "elicitation", ["elicitation/create"], inputResponses={"wrong": accept(data="x")})


@scenario("input-required-result-non-tool-request", NEW)
def _(s, client):
    first = client.send("prompts/get", {"name": A + "prompt"}).result
    s.expect(first.get("resultType") == "input_required", f"{first}")
    key = next(iter(first["inputRequests"]))
    more = {"requestState": first["requestState"]} if "requestState" in first else {}
    params = {"name": A + "prompt", "inputResponses": {key: accept(context="testing")}, **more}
    s.expect("testing" in json.dumps(client.send("prompts/get", params).result["messages"]), "the context")


@scenario("input-required-result-result-type", NEW)
def _(s, client):
    asked(s, client, A + "elicitation", ["elicitation/create"])


@scenario("input-required-result-unsupported-methods", NEW)
def _(s, client):
    for method in ("tools/list", "prompts/list"):
        s.expect(client.send(method).result.get("resultType") == "complete", method)


@scenario("input-required-result-tampered-state", NEW)
def _(s, client):
    first = asked(s, client, A + "tampered_state", ["elicitation/create"])
    answer = client.call(A + "tampered_state", inputResponses={"confirm": accept(ok=True)}, requestState=first["requestState"] + "-TAMPERED")
    s.expect(answer.error["code"] == -32602, f"{answer.final}")


@scenario("input-required-result-capability-check", NEW)
def _(s, client):
    asked(s, client, A + "capabilities", ["sampling/createMessage"], meta={META + "clientCapabilities": {"sampling": {}}})


@scenario("input-required-result-ignore-extra-params", NEW)
def _(s, client):
    responses = {"user_name": accept(name="Alice"), "unknown_key": accept(foo="bar")}
    s.expect(text_of(client.call(A + "elicitation", inputResponses=responses).result) == "Hello, Alice!", "the text")


@scenario("input-required-result-validate-input", NEW)
def _(s, client):
    for responses in ({"user_name": 12345}, None):
        answer = client.call(A + "elicitation", inputResponses=responses)
        s.expect("error" in answer.final or answer.result.get("resultType") == "input_required", f"{responses}: {answer.final}")


# Tasks.

ABLE = {"elicitation": {}, "extensions": {TASKS: {}}}


def created(s, client, name, arguments=None, **more):
    result = client.call(name, arguments, **more).result
    s.expect(result.get("resultType") == "task", f"{name} is not a task: {json.dumps(result)[:200]}")
    for key in ("ttl", "pollInterval", "requestState", "inputRequests", "task", "result"):
        s.expect(key not in result, f"a new task has {key}")
    return result["taskId"]


def task(client, id):
    return client.send("tasks/get", {"taskId": id}).result


def until(s, client, id, *states):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = task(client, id)
        s.expect("requestState" not in found, "a task has a requestState")
        if found["status"] in states:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the task is {found['status']}, not {states}")


ENDED = ("completed", "failed", "cancelled")


@scenario("tasks-lifecycle", "tasks")
def _(s, client):
    sync = client.call("greet", {"name": "World"}).result
    s.expect(sync["resultType"] == "complete" and text_of(sync) == "Hello, World!" and "taskId" not in sync, f"{sync}")
    id = created(s, client, "slow_compute", {"seconds": 2, "label": "x"})
    found = task(client, id)
    s.expect(found["status"] == "working" and "result" not in found and "error" not in found, f"{found}")
    found = until(s, client, id, *ENDED)
    s.expect(found["status"] == "completed" and text_of(found["result"]) == "computed x", f"{found}")
    found = until(s, client, created(s, client, "failing_job"), *ENDED)
    s.expect(found["status"] == "completed" and found["result"]["isError"], f"{found}")
    found = until(s, client, created(s, client, "protocol_error_job"), *ENDED)
    s.expect(found["status"] == "failed" and "code" in found["error"] and "result" not in found, f"{found}")
    id = created(s, client, "slow_compute", {"seconds": 60})
    ack = client.send("tasks/cancel", {"taskId": id}).result
    s.expect(not {"taskId", "status", "result", "error"} & set(ack), f"{ack}")
    s.expect(until(s, client, id, *ENDED)["status"] == "cancelled", "it is not cancelled")
    s.expect(client.send("tasks/cancel", {"taskId": id}).result["resultType"] == "complete", "cancelled twice")


@scenario("tasks-capability-negotiation", "tasks")
def _(s, client):
    capabilities = client.send("server/discover").result["capabilities"]
    s.expect(TASKS in capabilities["extensions"] and "tasks" not in capabilities, f"{capabilities}")
    unable = Client(s, NEW, {"elicitation": {}})
    for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
        answer = unable.send(method, {"taskId": "x", **more})
        s.expect((answer.status, answer.error["code"]) == (400, -32021), f"{method}: {answer.error}")
    s.expect(unable.call("slow_compute", {"seconds": 0}).result["resultType"] == "complete", "a task without the extension")
    id = created(s, unable, "slow_compute", {"seconds": 1}, meta={META + "clientCapabilities": {"extensions": {TASKS: {}}}})
    client.send("tasks/cancel", {"taskId": id})


@scenario("tasks-wire-fields", "tasks")
def _(s, client):
    result = client.call("slow_compute", {"seconds": 1}).result
    s.expect(isinstance(result["ttlMs"], int) and isinstance(result["pollIntervalMs"], int), f"{result}")
    found = until(s, client, result["taskId"], *ENDED)
    s.expect(META + "related-task" not in found["result"].get("_meta", {}), "related-task")


@scenario("tasks-request-state-removal", "tasks")
def _(s, client):
    until(s, client, created(s, client, "slow_compute", {"seconds": 1}), *ENDED)


@scenario("tasks-mrtr-input", "tasks")
def _(s, client):
    id = created(s, client, "confirm_delete", {"filename": "a.txt"})
    found = until(s, client, id, "input_required")
    (key, request), = found["inputRequests"].items()
    s.expect(request["method"] == "elicitation/create", f"{request}")
    ack = client.send("tasks/update", {"taskId": id, "inputResponses": {key: accept(confirm=True)}}).result
    s.expect(not {"taskId", "status", "result", "inputRequests"} & set(ack), f"{ack}")
    s.expect("deleted: True" in text_of(until(s, client, id, *ENDED)["result"]), "the answer is lost")
    id = created(s, client, "multi_input")
    end = time.monotonic() + 60
    keys = []
    while len(keys) < 2 and time.monotonic() < end:
        keys = list(task(client, id).get("inputRequests", {}))
    s.expect(len(keys) == 2, f"{keys}")
    client.send("tasks/update", {"taskId": id, "inputResponses": {keys[0]: accept(name="one", confirm=True)}})
    found = task(client, id)
    s.expect(found["status"] == "input_required" and list(found["inputRequests"]) == keys[1:], f"{found}")
    client.send("tasks/update", {"taskId": id, "inputResponses": {keys[1]: accept(name="two", confirm=True)}})
    s.expect("two" in text_of(until(s, client, id, *ENDED)["result"]), "the second answer is lost")


@scenario("tasks-request-headers", "tasks")
def _(s, client):
    s.expect(client.call("greet", {"name": "x"}, headers={"mcp-method": "tasks/get"}).error["code"] == -32020, "Mcp-Method")
    id = created(s, client, "slow_compute", {"seconds": 60})
    s.expect(task(client, id)["status"] == "working", "it does not work")
    for name in ("other", None):
        answer = client.send("tasks/get", {"taskId": id}, headers={"mcp-name": name})
        s.expect((answer.status, answer.error["code"]) == (400, -32020), f"Mcp-Name {name}: {answer.final}")
    client.send("tasks/cancel", {"taskId": id})


@scenario("tasks-dispatch-and-envelope", "tasks")
def _(s, client):
    for method in ("tasks/result", "tasks/list"):
        s.expect(client.send(method, {"taskId": "x"}).error["code"] == -32601, method)
    s.expect(client.call("greet", {"name": "x"}, task={"ttl": 60000, "pollInterval": 100}).result["resultType"] == "complete", "task")
    until(s, client, created(s, client, "failing_job"), *ENDED)
    found = client.call("slow_compute", {"seconds": 0}).result
    s.expect(found["resultType"] in ("task", "complete"), f"{found}")
    id = created(s, client, "slow_compute", {"seconds": 60})
    s.expect(task(client, id)["taskId"] == id, "another task")
    client.send("tasks/cancel", {"taskId": id})
    for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
        s.expect(client.send(method, {"taskId": "unknown", **more}).error["code"] == -32602, f"{method} of an unknown task")


@scenario("tasks-status-notifications", "tasks")
def _(s, client):
    """They are optional, and not sent."""
    until(s, client, created(s, client, "slow_compute", {"seconds": 0.5}), *ENDED)


@scenario("tasks-required-task-error", "tasks")
def _(s, client):
    answer = Client(s, NEW, {}).call("failing_job")
    s.expect((answer.status, answer.error["code"]) == (400, -32021), f"{answer.error}")
    s.expect(answer.error["data"]["requiredCapabilities"] == {"extensions": {TASKS: {}}}, f"{answer.error}")


@scenario("tasks-mrtr-composition", "tasks")
def _(s, client):
    first = asked(s, client, "test_tool_with_task", ["elicitation/create"])
    s.expect("taskId" not in first, "a task that asks first")
    second = back(client, "test_tool_with_task", first, user_name=accept(name="Alice")).result
    s.expect(second["resultType"] == "task" and "requestState" not in second and "inputRequests" not in second, f"{second}")
    s.expect("Alice" in text_of(until(s, client, second["taskId"], *ENDED)["result"]), "the name is lost")


def main():
    url, schemas, *only = sys.argv[1:]
    suite, failed = Suite(url, schemas), 0
    chosen = [it for it in SCENARIOS if not only or it[0] in only]
    for name, revision, function in chosen:
        suite.faults = []
        try:
            client = Client(suite, OLD) if revision == OLD else Client(suite, NEW, ABLE if revision == "tasks" else None)
            function(suite, client)
        except Exception as error:  # a scenario that breaks has failed
            place = traceback.extract_tb(error.__traceback__)
            lines = [str(it.lineno) for it in place if it.filename == __file__]
            suite.fault(f"{type(error).__name__}: {error} (line {', '.join(lines)})")
        failed += bool(suite.faults)
        print("FAIL" if suite.faults else "ok  ", revision, name, flush=True)
        for fault in suite.faults[:5]:
            print("     ", str(fault)[:600])
    print(f"{len(chosen) - failed} of {len(chosen)} pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
