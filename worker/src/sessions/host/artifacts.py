"""What a cell made beside its output and its result: figures and files, told to the worker as artifacts."""

import io
import mimetypes
import os
import sys
from binascii import b2a_base64
from importlib.machinery import PathFinder
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
        self.bytes = self.drawn = self.noted = 0

    def figures(self):
        """Draws and closes the open figures of matplotlib, each by itself. Nobody imports it for this."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        try:
            # `list` gives none: pyplot is not imported, or not all of it yet.
            numbers = list(getattr(pyplot, "get_fignums", list)())
        except Exception as error:
            numbers = []
            self.note(f"the figures could not be listed: {reason(error)}")
        for number in numbers:
            self.drawn += 1
            name = f"figure-{self.number}-{self.drawn}.png"
            try:
                self.figure(name, pyplot, number)
            except Exception as error:
                self.note(f"'{name}' could not be drawn: {reason(error)}")

    def figure(self, name, pyplot, number):
        try:
            if self.has_room(name, 0):
                drawn = io.BytesIO()
                pyplot.figure(number).savefig(drawn, format="png")
                self.add(name, drawn.getvalue())
        finally:
            pyplot.close(number)

    def files(self, folder, before):
        """Files that the cell wrote, or changed."""
        after, is_whole = listing(folder)
        if not is_whole:
            self.note(f"only the first {MOST_ENTRIES} entries of the working folder were read: other files do not become artifacts")
        for path in sorted(path for path, stamp in after.items() if before.get(path) != stamp):
            name = os.path.relpath(path, folder).replace(os.sep, "-")
            try:
                self.add(name, content(path))
            except OSError as error:
                self.note(f"'{name}' is not an artifact: {error.strerror}")

    def has_room(self, name, size):
        if size > MOST_ARTIFACT_BYTES:
            self.note(f"'{name}' is not an artifact: it is larger than {MOST_ARTIFACT_BYTES} bytes")
        elif len(self.ended["artifacts"]) >= MOST_ARTIFACTS or self.bytes + size > MOST_ARTIFACTS_BYTES:
            self.note(f"'{name}' is not an artifact: the cell has too many artifacts, or artifacts that are too large")
        else:
            return True
        return False

    def add(self, name, data):
        if not self.has_room(name, len(data)):
            return
        told = self.ended["artifacts"]
        self.bytes += len(data)
        name = distinct_name(name, [it["name"] for it in told])
        media_type = guess_type(name)[0] or "application/octet-stream"
        own = f"cell-{self.number}-{len(told) + 1}"
        label = {"id": own, "name": name, "media_type": media_type}
        begin = 0
        while True:
            chunk, begin = data[begin:begin + CHUNK_BYTES], begin + CHUNK_BYTES
            text = b2a_base64(chunk, newline=False).decode("ascii")
            self.send({"artifact": {**label, "data": text, "more": begin < len(data)}})
            if begin >= len(data):
                break
        told.append({"name": name, "media_type": media_type, "size_bytes": len(data)})

    def note(self, text):
        notes = self.ended["notes"]
        self.noted += 1
        if self.noted < MOST_NOTES:
            notes.append(cut(text, MOST_MESSAGE))
        else:
            notes[MOST_NOTES - 1:] = [f"{self.noted - MOST_NOTES + 1} more notes are not listed"]


def distinct_name(name, names):
    """A name of at most 255 bytes, with a number if there is such a file already: `a/b` and `a-b` are both called `a-b`."""
    stem, _, extension = name.rpartition(".")
    stem, extension = (stem, "." + extension) if stem and extension.isalnum() else (name, "")
    short = lambda text, most: text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
    name, number = short(stem, 190) + short(extension, 50), 1
    while name in names:
        number += 1
        name = f"{short(stem, 190)}-{number}{short(extension, 50)}"
    return name


def replace_show(show):
    """Gives `matplotlib.pyplot` this function, now or when it is imported."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.show = show
    sys.meta_path.insert(0, PyplotFinder(show))


class PyplotFinder:
    """Finds it as Python does."""

    def __init__(self, show):
        self.show = show

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_replace(module):
                execute(module)
                module.show = self.show

            spec.loader.exec_module = execute_and_replace
        return spec


def listing(folder):
    """The plain files below a folder, each with what changes when it is written, and whether these are all. Hidden ones and bytecode do
    not count."""
    found, folders, left = {}, [folder], MOST_ENTRIES
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return found, False
                    if entry.name.startswith(".") or entry.name == "__pycache__":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        about = entry.stat(follow_symlinks=False)
                        found[entry.path] = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)
        except OSError:
            pass
    return found, True


def content(path):
    """What a file holds, and of one that is too large to be an artifact a byte more than is allowed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "it is not a plain file")
        return file.read(MOST_ARTIFACT_BYTES + 1)
