"""Generates a client from /openapi.json with openapi-generator, and uses it: invokes, lists, reads a trace and chats."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import openapi_generator_cli


def read_trace(traces):
    """The trace of the call, which is recorded after its answer."""
    import openapi_client

    deadline = time.monotonic() + 30
    while True:
        try:
            return traces.get_trace("generated")
        except openapi_client.ApiException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


url = f"http://{sys.argv[1]}"
with tempfile.TemporaryDirectory() as folder:
    jar = pathlib.Path(openapi_generator_cli.__file__).parent / "openapi-generator.jar"
    generation = subprocess.run(
        ["java", "-jar", jar, "generate", "-g", "python", "-i", f"{url}/openapi.json", "-o", folder],
        capture_output=True, text=True,
    )
    if generation.returncode:
        sys.exit(generation.stdout[-5000:] + generation.stderr[-5000:])
    sys.path.insert(0, folder)
    import openapi_client

    client = openapi_client.ApiClient(openapi_client.Configuration(host=url))
    skills, agent = openapi_client.SkillsApi(client), openapi_client.AgentApi(client)
    call = openapi_client.EchoInvokeRequest(input=openapi_client.EchoInput(text="hi"))
    result = skills.echo_invoke(call, x_trace_id="generated").actual_instance
    call.envelope = "status"
    status = skills.echo_invoke(call).actual_instance
    try:
        skills.invoke_raw(openapi_client.InvokeRawRequest(call=openapi_client.InvokeRawRequestCall("in no form")))
    except openapi_client.ApiException as refused:
        failed = refused.data.actual_instance
    message = openapi_client.ChatMessage(message=openapi_client.ChatMessageMessage("hello"))
    exchange = agent.chat(openapi_client.ChatRequest(message))
    print(json.dumps({
        "types": [type(it).__name__ for it in (result, status, failed, exchange)],
        "data": [result.data.to_dict(), status.data.to_dict()],
        "error": failed.error.code,
        "skills": [skill.id for skill in openapi_client.CatalogApi(client).list_skills().skills],
        "events": [event["event"] for event in read_trace(openapi_client.TracesApi(client)).events],
        "end": exchange.done.end,
        "conversation": agent.get_conversation(exchange.conversation_id).id == exchange.conversation_id,
    }))
