"""Calls skills from another service with grpcio, over TLS, with an API key.

    python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. proto/openskill/v1/*.proto
    python client.py localhost:8000 --ca ca.pem --token-file reports.key

Needs grpcio, grpcio-tools for the stubs, and service-config.json beside this directory.
"""

import argparse
import json
import pathlib
import secrets
import uuid

import grpc
from openskill.v1 import skill_pb2, skill_pb2_grpc

SERVICE_CONFIG = pathlib.Path(__file__).resolve().parent.parent / "service-config.json"


def connect(address: str, ca: str, token_file: str) -> grpc.Channel:
    """One channel for the whole program: it is safe to share among threads, and connects again by itself."""
    certificates = grpc.ssl_channel_credentials(pathlib.Path(ca).read_bytes())
    # Only ever sent over TLS: gRPC refuses it on a channel in plain text.
    token = grpc.access_token_call_credentials(pathlib.Path(token_file).read_text().strip())
    options = [
        ("grpc.service_config", SERVICE_CONFIG.read_text()),
        ("grpc.enable_retries", 1),
        # Finds out that a connection is dead, also while a call waits for its result.
        ("grpc.keepalive_time_ms", 30_000),
    ]
    return grpc.secure_channel(address, grpc.composite_channel_credentials(certificates, token), options)


def traceparent() -> tuple[str, str]:
    """The trace that calls belong to. A service has one already: pass on that of the request it is working for."""
    return ("traceparent", f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01")


def call_one(stub: skill_pb2_grpc.SkillServiceStub) -> None:
    """A call with a deadline. The key makes it safe that gRPC repeats it, as the service configuration says."""
    request = skill_pb2.InvokeRequest(
        skill_id="echo",
        input_json=json.dumps({"text": "hello"}),
        idempotency_key=str(uuid.uuid4()),
    )
    result = stub.Invoke(request, timeout=20, metadata=[traceparent()])
    if not result.success:
        raise SystemExit(f"{result.error.code}: {result.error.message}")
    print("called:", json.loads(result.data_json)["echoed"], "in trace", result.trace_id)


def call_many(stub: skill_pb2_grpc.SkillServiceStub) -> None:
    """Several calls at once on one stream. Their results come as they end, in any order."""
    texts = {f"call-{number}": f"text {number}" for number in range(3)}
    requests = (
        skill_pb2.InvokeRequest(skill_id="echo", call_id=call_id, input_json=json.dumps({"text": text}))
        for call_id, text in texts.items()
    )
    for event in stub.InvokeMany(requests, timeout=20, metadata=[traceparent()]):
        if event.WhichOneof("event") == "result":
            echoed = json.loads(event.result.data_json)["echoed"]
            assert echoed == texts.pop(event.call_id)
            print("one of many:", echoed)
    assert not texts, f"without a result: {texts}"


def cancel(stub: skill_pb2_grpc.SkillServiceStub, skill: str) -> None:
    """A call that nobody waits for any more. The gateway ends the skill's process too."""
    events = stub.InvokeStream(skill_pb2.InvokeRequest(skill_id=skill, input_json="{}"), timeout=20)
    for event in events:
        if event.WhichOneof("event") == "accepted":
            events.cancel()
            break
    try:
        for _ in events:
            pass
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.CANCELLED, error
        print("cancelled:", skill)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--ca", required=True, help="file with the authorities of the gateway's certificate")
    parser.add_argument("--token-file", required=True, help="file with an API key")
    parser.add_argument("--slow", help="a skill that takes long, to cancel a call of it")
    args = parser.parse_args()
    with connect(args.address, args.ca, args.token_file) as channel:
        stub = skill_pb2_grpc.SkillServiceStub(channel)
        call_one(stub)
        call_many(stub)
        if args.slow:
            cancel(stub, args.slow)


if __name__ == "__main__":
    main()
