"""The messages and methods of `openskill.v1` and `google.longrunning`, made from the descriptors that the package carries.

No generated code: the package works with any protobuf runtime that it allows, and beside stubs of the same contract.
"""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, struct_pb2  # noqa: F401  (the contract imports the second)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "openskill.v1"

LONGRUNNING = "google.longrunning"


def _pool() -> DescriptorPool:
    # A pool of its own: the default one may have stubs of another version of the contract.
    pool = DescriptorPool()
    described = files(__package__).joinpath("contract.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        pool.Add(file)
    return pool


_POOL = _pool()


def message(name: str) -> Any:
    """The class of a message, such as `InvokeRequest`."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def enum_name(enum: str, number: int) -> str:
    """The name of an enum's value. Its number as text if this version of the package does not know it."""
    value = _POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}").values_by_number.get(number)
    return value.name if value else str(number)


class Method:
    """A method of a service: where it is called, and how its messages are written and read."""

    def __init__(self, service: str, name: str, package: str = PACKAGE) -> None:
        described = _POOL.FindServiceByName(f"{package}.{service}").methods_by_name[name]
        self.path = f"/{package}.{service}/{name}"
        self.request = GetMessageClass(described.input_type)
        self.response = GetMessageClass(described.output_type)

    def of(self, kind: Any) -> Any:
        """The callable, made by a channel's `unary_unary` or its relatives."""
        return kind(
            self.path,
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )


class Stubs:
    """The callables of a channel, of `grpc` or of `grpc.aio`."""

    def __init__(self, channel: Any) -> None:
        self.invoke = INVOKE.of(channel.unary_unary)
        self.stream = INVOKE_STREAM.of(channel.unary_stream)
        self.list = LIST_SKILLS.of(channel.unary_unary)
        self.export = EXPORT_TOOLS.of(channel.unary_unary)
        self.read = READ_ARTIFACT.of(channel.unary_unary)
        self.answer = ANSWER_INPUT.of(channel.unary_unary)
        self.submit = SUBMIT.of(channel.unary_unary)
        self.watch_operation = WATCH_OPERATION.of(channel.unary_stream)
        self.get_operation = GET_OPERATION.of(channel.unary_unary)
        self.wait_operation = WAIT_OPERATION.of(channel.unary_unary)
        self.cancel_operation = CANCEL_OPERATION.of(channel.unary_unary)


INVOKE = Method("SkillService", "Invoke")
INVOKE_STREAM = Method("SkillService", "InvokeStream")
LIST_SKILLS = Method("SkillService", "ListSkills")
EXPORT_TOOLS = Method("SkillService", "ExportTools")
READ_ARTIFACT = Method("SkillService", "ReadArtifact")
ANSWER_INPUT = Method("SkillService", "AnswerInput")
SUBMIT = Method("OperationService", "Submit")
WATCH_OPERATION = Method("OperationService", "WatchOperation")
GET_OPERATION = Method("Operations", "GetOperation", LONGRUNNING)
WAIT_OPERATION = Method("Operations", "WaitOperation", LONGRUNNING)
CANCEL_OPERATION = Method("Operations", "CancelOperation", LONGRUNNING)
