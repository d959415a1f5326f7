"""Unpacks one wheel. Runs in a jail of its own, in which it can write to nothing but the folder that it fills.

On stdin: {"wheel": ..., "target": ..., "most_files": ..., "most_bytes": ...}. On stdout: {"modules": [...], "left_out": ...}, or
{"refused": "why"}.
"""

import base64
import compileall
import csv
import hashlib
import io
import json
import os
import stat
import sys
import zipfile

MOST_DEPTH, MOST_NAME, MOST_RECORD, MOST_MODULES = 32, 200, 16 * 1024 * 1024, 64
STEP = 1024 * 1024


class Refused(Exception):
    pass


def shown(name):
    return ascii(name[:100])


def checked(name):
    """The parts of a path within the wheel."""
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise Refused(f"its file {shown(name)} is outside the wheel")
    if len(parts) > MOST_DEPTH or any(len(os.fsencode(part)) > MOST_NAME for part in parts):
        raise Refused(f"the path {shown(name)} is too long")
    return parts


def contents(wheel, given):
    """The plain files by path, before anything is unpacked."""
    entries = wheel.infolist()
    if len(entries) > given["most_files"]:
        raise Refused(f"it has more than {given['most_files']} files")
    files, size = {}, 0
    for entry in entries:
        parts = checked(entry.filename.rstrip("/") if entry.is_dir() else entry.filename)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"{shown(entry.filename)} is a link or a device")
        if entry.is_dir():
            continue
        if entry.flag_bits & 1:
            raise Refused("it is encrypted")
        path = "/".join(parts)
        if path in files:
            raise Refused(f"it has {shown(path)} twice")
        files[path] = entry
        size += entry.file_size
        if size > given["most_bytes"]:
            raise Refused(f"it has more than {given['most_bytes']} bytes when it is unpacked")
    return files


def record(wheel, files):
    """The hashes of its files, as it says itself, and the name of its information."""
    found = [path for path in files if path.count("/") == 1 and path.endswith(".dist-info/RECORD")]
    if len(found) != 1:
        raise Refused("it has no list of its files (RECORD)")
    info = found[0].partition("/")[0]
    for name in ("METADATA", "WHEEL"):
        if f"{info}/{name}" not in files:
            raise Refused(f"it has no {name}")
    if files[found[0]].file_size > MOST_RECORD:
        raise Refused("the list of its files (RECORD) is too long")
    with wheel.open(files[found[0]]) as source:
        text = source.read(MOST_RECORD + 1).decode("utf-8")
    hashes = {row[0]: row[1] for row in csv.reader(io.StringIO(text)) if len(row) >= 2}
    for path in files:
        if path not in hashes and not path.startswith(found[0]):
            raise Refused(f"{shown(path)} is not in the list of its files (RECORD)")
    return hashes, info[: -len(".dist-info")]


def place(path, data):
    """Where a file goes. None: to no place that an import finds."""
    if not path.startswith(data):
        return path
    scheme, _, rest = path[len(data):].partition("/")
    return rest if scheme in ("purelib", "platlib") and rest else None


def write(wheel, entry, target, wanted, left):
    """Unpacks one file. How many bytes it has."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    kind, _, told = (wanted or "").partition("=")
    if told and kind not in ("sha256", "sha384", "sha512"):
        raise Refused("the list of its files (RECORD) has hashes of an unknown kind")
    digest = hashlib.new(kind) if told else None
    size = 0
    with wheel.open(entry) as source, open(target, "xb") as sink:
        while True:
            data = source.read(STEP)
            if not data:
                break
            size += len(data)
            if size > left:
                raise Refused("it has more bytes than its list declares")
            if digest:
                digest.update(data)
            sink.write(data)
    if digest and base64.urlsafe_b64encode(digest.digest()).rstrip(b"=") != told.rstrip("=").encode():
        raise Refused(f"{shown(entry.filename)} does not have the hash that the wheel lists")
    return size


def modules(paths):
    """What can be imported of it, at the top."""
    found = set()
    for path in paths:
        top, _, rest = path.partition("/")
        name = top if rest else top.partition(".")[0] if top.endswith((".py", ".so")) else ""
        if name.isidentifier() and not name.startswith("_") and (not rest or rest.endswith((".py", ".so"))):
            found.add(name)
    return sorted(found)[:MOST_MODULES]


def unpack(given):
    target = given["target"]
    with zipfile.ZipFile(given["wheel"]) as wheel:
        files = contents(wheel, given)
        hashes, stem = record(wheel, files)
        left, paths = given["most_bytes"], []
        for path, entry in files.items():
            found = place(path, f"{stem}.data/")
            if found is not None:
                left -= write(wheel, entry, os.path.join(target, found), hashes.get(path), left)
                paths.append(found)
    # Reads the sources, runs nothing. What can't be compiled says so when it is imported.
    compileall.compile_dir(target, quiet=2, workers=1, stripdir=target, prependdir="")
    return {"modules": modules(paths), "left_out": len(files) - len(paths)}


try:
    answer = unpack(json.load(sys.stdin))
except Refused as refused:
    answer = {"refused": str(refused)}
except OSError as error:
    answer = {"refused": f"it can't be unpacked: {error.strerror}"}
except Exception as error:  # a wheel that is no zip file has many ways to show it
    answer = {"refused": f"it can't be read: {type(error).__name__}: {ascii(str(error)[:200])}"}
print(json.dumps(answer))
