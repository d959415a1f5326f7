"""Generates a client from /openapi.json with openapi-python-client, and uses it: invokes, lists, reads a trace and chats."""
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

url = f"http://{sys.argv[1]}"
temporary = tempfile.TemporaryDirectory()
folder = pathlib.Path(temporary.name)
document = folder / "openapi.json"
document.write_bytes(urllib.request.urlopen(f"{url}/openapi.json").read())
# No hooks: they format the code with a program that may not be there.
(folder / "config.yaml").write_text("post_hooks: []\n")
generate = [sys.executable, "-m", "openapi_python_client", "generate", "--path", document, "--meta", "none"]
generation = subprocess.run(
    [*generate, "--output-path", folder / "generated", "--config", folder / "config.yaml", "--fail-on-warning"],
    capture_output=True, text=True,
)
if generation.returncode:
    sys.exit(generation.stdout + generation.stderr)

sys.path.insert(0, str(folder))
models = importlib.import_module("generated.models")
client = importlib.import_module("generated").Client(base_url=url)


def call(operation, **arguments):
    return importlib.import_module(f"generated.api.{operation}").sync(client=client, **arguments)


body = models.EchoInvokeBody(input_=models.EchoInput(text="hi"))
result = call("skills.echo_invoke", body=body, x_trace_id="generated")
body.envelope = models.EchoInvokeBodyEnvelope.STATUS
status = call("skills.echo_invoke", body=body)
failed = call("skills.invoke_raw", body=models.InvokeRawBody(call="in no form"))
skills = call("catalog.list_skills").skills
# A call is recorded after its answer.
deadline = time.monotonic() + 30
while not hasattr(trace := call("traces.get_trace", id="generated"), "events") and time.monotonic() < deadline:
    time.sleep(0.05)
exchange = call("agent.chat", body=models.ChatMessage(message="hello"))
print(json.dumps({
    "types": [type(it).__name__ for it in (result, status, failed, exchange)],
    "data": [result.data.to_dict(), status.data.to_dict()],
    "error": failed.error.code,
    "skills": [skill.id for skill in skills],
    "events": [event.to_dict()["event"] for event in trace.events],
    "end": exchange.done.end,
    "conversation": call("agent.get_conversation", id=exchange.conversation_id).id == exchange.conversation_id,
}))
