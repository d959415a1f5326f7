"""Sends the same health and reflection requests to a gateway and to a grpcio server, which serves reflection v1alpha alone.

    python grpcio_peers.py 127.0.0.1:8000

Prints the answers of both. Error messages are left out, because each server words its own.
"""
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
UNKNOWN = "nowhere.Nothing"
SYMBOLS = [
    HEALTH, "grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckRequest.service",
    "grpc.health.v1.HealthCheckResponse.ServingStatus", REFLECTION, UNKNOWN, "",
]


def status(call):
    """The outcome of a health check, or the code of its error."""
    try:
        return health_pb2.HealthCheckResponse.ServingStatus.Name(call().status)
    except grpc.RpcError as error:
        return error.code().name


def describe(data):
    file = FileDescriptorProto.FromString(data)
    # Its messages and methods depend on the revision of the file that a server was built with.
    return {"package": file.package, "services": [service.name for service in file.service]}


def reply(message):
    """An answer of reflection, without what is particular to a server."""
    kind = message.WhichOneof("message_response")
    if kind == "list_services_response":
        names = [service.name for service in message.list_services_response.service]
        return {"kind": kind, "has": [name in names for name in (HEALTH, REFLECTION)]}
    if kind == "file_descriptor_response":
        return {"kind": kind, "files": [describe(data) for data in message.file_descriptor_response.file_descriptor_proto]}
    if kind == "error_response":
        return {"kind": kind, "code": message.error_response.error_code}
    return {"kind": kind, "numbers": list(message.all_extension_numbers_response.extension_number)}


def ask(address):
    request = reflection_pb2.ServerReflectionRequest
    extension = reflection_pb2.ExtensionRequest
    requests = [
        request(list_services=""),
        *(request(file_containing_symbol=symbol) for symbol in SYMBOLS),
        request(file_by_filename="nowhere.proto"),
        request(all_extension_numbers_of_type="grpc.health.v1.HealthCheckRequest"),
        request(all_extension_numbers_of_type=UNKNOWN),
        request(file_containing_extension=extension(containing_type="grpc.health.v1.HealthCheckRequest", extension_number=1)),
        request(file_containing_extension=extension(containing_type=UNKNOWN, extension_number=1)),
    ]
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        check = health_pb2.HealthCheckRequest
        replies = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(requests), timeout=30)
        return {
            "check": [status(lambda: stub.Check(check(service=name), timeout=30)) for name in ("", HEALTH, UNKNOWN)],
            "watch": [status(lambda: next(stub.Watch(check(service=name), timeout=30))) for name in ("", HEALTH, UNKNOWN)],
            "reflection": [{"asked": str(asked).strip(), **reply(it)} for asked, it in zip(requests, replies)],
        }


def main():
    server = grpc.server(ThreadPoolExecutor(8))
    servicer = health.HealthServicer()
    servicer.set(HEALTH, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection([HEALTH, REFLECTION], server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(json.dumps({"gateway": ask(sys.argv[1]), "grpcio": ask(f"127.0.0.1:{port}")}))
    server.stop(None)


if __name__ == "__main__":
    main()
