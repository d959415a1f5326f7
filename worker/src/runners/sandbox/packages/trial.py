"""Tries whether packages can be imported: each in a process of its own, in a jail that ends with them.

On stdin: {"paths": [...], "packages": [{"name": ..., "modules": [...]}], "seconds": ...}. On stdout: {name: null, or why not}.
"""

import json
import os
import select
import sys
import time

MOST_REASON = 300


def reason(module, error):
    return f"import {module}: {type(error).__name__}: {error}"[:MOST_REASON]


def attempt(modules, to):
    """In a child. Never returns."""
    told = "its process ended"
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        for module in modules:
            try:
                __import__(module)
            except BaseException as error:
                told = reason(module, error)
                break
        else:
            told = ""
    finally:
        os.write(to, json.dumps(told).encode())
        os._exit(0)


def tried(modules, seconds):
    source, to = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        attempt(modules, to)
    os.close(to)
    data, until = b"", time.monotonic() + seconds
    # What it left running may hold the pipe open: its own word is enough.
    while select.select([source], [], [], max(0, until - time.monotonic()))[0]:
        part = os.read(source, 4096)
        data += part
        if not part or len(data) > 8192 or data.endswith(b'"'):
            break
    os.close(source)
    os.kill(child, 9)
    os.waitpid(child, 0)
    if not data:
        return "its process ended" if time.monotonic() < until else f"not done after {seconds} seconds"
    try:
        told = json.loads(data)
    except ValueError:
        return "its process answered something else"
    return str(told)[:MOST_REASON] or None


given = json.load(sys.stdin)
own = (at for at, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages")))
at = next(own, len(sys.path))
sys.path[at:at] = given["paths"]
os.chdir(os.environ["TMPDIR"])
print(json.dumps({it["name"]: tried(it["modules"], given["seconds"]) for it in given["packages"]}))
