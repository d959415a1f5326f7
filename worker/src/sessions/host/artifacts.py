"""What a cell made beside its output and its result: figures and files, told to the worker as artifacts."""

import io
import mimetypes
import os
import sys
from binascii import b2a_base64
from stat import S_ISREG

# As the worker bounds the artifacts of a call.
MOST_ARTIFACTS, MOST_ARTIFACT_BYTES, MOST_ARTIFACTS_BYTES = 64, 10 * 1024 * 1024, 32 * 1024 * 1024
MOST_NOTES = 16
# Of the working folder, how much is looked at.
MOST_ENTRIES = 4096
# Of an artifact, in one line of at most 64 KiB.
CHUNK_BYTES = 45_000

# What the code may replace in its modules.
guess_type = mimetypes.guess_type
mimetypes.init()


class Artifacts:
    """What a cell made beside its output: open figures, and files in its working folder."""

    def __init__(self, send, number, ended):
        self.send, self.number, self.ended = send, number, ended
        self.bytes = 0

    def figures(self):
        """The open figures of matplotlib, once. Nobody imports it for this."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        try:
            for place, number in enumerate(pyplot.get_fignums()[:MOST_ARTIFACTS], 1):
                drawn = io.BytesIO()
                pyplot.figure(number).savefig(drawn, format="png")
                self.add(f"figure-{self.number}-{place}.png", drawn.getvalue())
            pyplot.close("all")
        except Exception as error:
            self.note(f"the figures could not be drawn: {type(error).__name__}: {error}")

    def files(self, folder, before):
        """Files that the cell wrote, or changed."""
        after = listing(folder)
        for path in sorted(path for path, stamp in after.items() if before.get(path) != stamp):
            try:
                data = content(path)
            except OSError as error:
                self.note(f"'{os.path.relpath(path, folder)}' is no artifact: {error.strerror}")
                continue
            name = os.path.relpath(path, folder).replace(os.sep, "-")
            if data is None:
                self.note(f"'{name}' is no artifact: it is larger than {MOST_ARTIFACT_BYTES} bytes")
            else:
                self.add(name, data)

    def add(self, name, data):
        told = self.ended["artifacts"]
        if len(told) >= MOST_ARTIFACTS or self.bytes + len(data) > MOST_ARTIFACTS_BYTES:
            self.note(f"'{name}' is no artifact: the cell has too many, or too large ones")
            return
        self.bytes += len(data)
        media_type = guess_type(name)[0] or "application/octet-stream"
        own = f"cell-{self.number}-{len(told) + 1}"
        label = {"id": own, "name": cut(name, 255), "media_type": media_type}
        begin = 0
        while True:
            chunk, begin = data[begin:begin + CHUNK_BYTES], begin + CHUNK_BYTES
            text = b2a_base64(chunk, newline=False).decode("ascii")
            self.send({"artifact": {**label, "data": text, "more": begin < len(data)}})
            if begin >= len(data):
                break
        told.append({"name": label["name"], "media_type": media_type, "size_bytes": len(data)})

    def note(self, text):
        notes = self.ended["notes"]
        if len(notes) < MOST_NOTES:
            notes.append(cut(text, MOST_MESSAGE))


def listing(folder):
    """The plain files below a folder, each with what changes when it is written. Hidden ones and bytecode do not count."""
    found, folders, left = {}, [folder], MOST_ENTRIES
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return found
                    if entry.name.startswith(".") or entry.name == "__pycache__":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        about = entry.stat(follow_symlinks=False)
                        found[entry.path] = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)
        except OSError:
            pass
    return found


def content(path):
    """What a file holds. None: it is too large to be an artifact."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "it is no plain file")
        data = file.read(MOST_ARTIFACT_BYTES + 1)
    return data if len(data) <= MOST_ARTIFACT_BYTES else None
