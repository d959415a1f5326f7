"""Artifacts: pictures and files that a skill produces beside its data."""

from __future__ import annotations

import binascii
import os

from .events import emit

CHUNK_BYTES = 36 * 1024  # a line of the event channel has at most 64 KiB

_count = 0


def artifact(name: str, data: bytes | bytearray | memoryview, media_type: str | None = None) -> None:
    """Adds a picture or a file to the result: `data` is bytes, `name` a plain file name.

    The media type follows from the name if none is given. The host keeps up to 10 MiB per artifact, and 64 artifacts
    with 32 MiB per call; it drops one over a bound with a warning in the result.
    """
    global _count
    _count += 1
    label = {"id": f"{os.getpid()}-{_count}", "name": str(name), "media_type": media_type or _guess(str(name))}
    content = memoryview(data).cast("B")
    begin = 0
    while True:
        chunk, begin = content[begin:begin + CHUNK_BYTES], begin + CHUNK_BYTES
        more = begin < len(content)
        base64 = binascii.b2a_base64(chunk, newline=False).decode("ascii")
        if not emit({"artifact": {**label, "data": base64, "more": more}}) or not more:
            return


def _guess(name: str) -> str:
    import mimetypes

    return mimetypes.guess_type(name)[0] or "application/octet-stream"
