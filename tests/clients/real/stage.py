"""What the scripts of real clients share: the gateway before them, what they look for, and how they say what they saw.

A script sees: list, call, progress, cancel, question, new. True: it worked. None: the client has no way to do it. For a new skill,
"listed" means that the client sees it when it lists again, and does not listen for changes.
"""
import asyncio
import glob
import json
import os
import sys
import time
import traceback

URL, BINARY, FOLDER = sys.argv[1:4]
SEEN = {"list": None, "call": None, "progress": None, "cancel": None, "question": None, "new": None}
QUESTION = {"message": "Who?", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}}
ANSWER = {"name": "Ada"}
PATIENCE_S = 30


def processes():
    """The processes of the slow skill."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if f"MARK={FOLDER}".encode() in file.read():
                    found.append(path)
        except OSError:
            pass
    return found


async def until(condition):
    """Whether the condition comes true in time."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        await asyncio.sleep(0.05)
    return False


async def cancelled(call, cancel):
    """Whether the processes of a call end when it is cancelled. `call`: a coroutine; `cancel`: what ends its task."""
    task = asyncio.ensure_future(call)
    if not await until(processes):
        raise RuntimeError("the slow skill did not begin")
    await cancel(task)
    has_ended = await until(lambda: not processes())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return has_ended


async def end_task(task):
    task.cancel()


def add_skill():
    """A skill that was not there."""
    with open(os.path.join(FOLDER, "added.sh"), "w") as file:
        file.write("#!/bin/sh\necho '\"it is new\"'\n")
    os.chmod(file.name, 0o755)
    with open(os.path.join(FOLDER, "added.yaml"), "w") as file:
        file.write("id: added\ndescription: A new skill.\ntype: cli\nruntime: exec\nentry: added.sh\n")


async def noticed(changes, names):
    """Adds a skill. How a client notices it: `changes` are what it heard, `names` lists the tools."""
    add_skill()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if "added" in await names():
            await asyncio.sleep(0.5)
            return True if changes else "listed"
        await asyncio.sleep(0.2)
    return False


def run(main):
    """Runs a script, and prints what it saw."""
    async def bounded():
        await asyncio.wait_for(main(), 4 * PATIENCE_S)

    try:
        asyncio.run(bounded())
    except BaseException:
        traceback.print_exc()
    print(json.dumps(SEEN), flush=True)
    # Libraries may leave threads behind.
    os._exit(0)
