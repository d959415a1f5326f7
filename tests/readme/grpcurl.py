#!/usr/bin/env python3
"""Stands in for grpcurl where it is not installed: the same command line, for the few options the docs use.

    grpcurl.py -plaintext [-H 'name: value'] [-d JSON] HOST:PORT list | describe NAME | SERVICE/METHOD

Like grpcurl it knows no .proto file: it learns every type from the server, by reflection.
"""
import argparse
import sys

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-plaintext", action="store_true", required=True)
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data", default="")
    parser.add_argument("address")
    parser.add_argument("what")
    parser.add_argument("name", nargs="?")
    args = parser.parse_args()
    with grpc.insecure_channel(args.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        if args.what == "list":
            print("\n".join(sorted(database.get_services())))
        else:
            call(channel, DescriptorPool(database), args)


def call(channel, pool, args):
    service, name = args.what.replace("/", ".").rsplit(".", 1)
    method = pool.FindServiceByName(service).methods_by_name[name]
    request_type = message_factory.GetMessageClass(method.input_type)
    answer_type = message_factory.GetMessageClass(method.output_type)
    request = json_format.Parse(args.data or "{}", request_type(), descriptor_pool=pool)
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    stub = getattr(channel, kind)(
        f"/{service}/{name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer_type.FromString,
    )
    metadata = [tuple(part.strip() for part in header.split(":", 1)) for header in args.headers]
    try:
        answer = stub(iter([request]) if method.client_streaming else request, metadata=metadata, timeout=30)
        for message in answer if method.server_streaming else [answer]:
            print(json_format.MessageToJson(message, descriptor_pool=pool, ensure_ascii=False))
    except grpc.RpcError as error:
        print(f"ERROR:\n  Code: {error.code().name}\n  Message: {error.details()}", file=sys.stderr)
        sys.exit(64 + error.code().value[0])


if __name__ == "__main__":
    main()
