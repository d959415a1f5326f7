"""Calls a skill with grpcio, messages compressed with gzip in both directions, unary and as a stream."""
import json
import sys

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

with grpc.insecure_channel(sys.argv[1], compression=grpc.Compression.Gzip) as channel:
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    service = pool.FindServiceByName("openskill.v1.SkillService")

    def stub(name, kind):
        method = service.methods_by_name[name]
        return getattr(channel, kind)(
            f"/openskill.v1.SkillService/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
        )

    request_type = message_factory.GetMessageClass(service.methods_by_name["Invoke"].input_type)
    text = "the same words again " * 5000
    request = request_type(skill_id="in_echo", input_json=json.dumps({"text": text}))
    result = stub("Invoke", "unary_unary")(request, timeout=30)
    events = stub("InvokeMany", "stream_stream")(iter([request, request]), timeout=30)
    results = [result] + [event.result for event in events if event.HasField("result")]
    print(json.dumps([json.loads(it.data_json)["text"] == text for it in results]))
