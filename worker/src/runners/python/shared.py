"""One interpreter for many calls of one trusted script: its compiled code runs again and again, with fresh globals.

Started by the worker, under a supervisor, with this text on descriptor 0. Descriptor OPENSKILL_EVENTS_FD is a socket to
the worker. A call is a line of JSON with its environment and the length of the input, which follows. The answer is a line
`{"ended": {...}}` with the exit code and the lengths of stdout and stderr, which follow. Events of the script are lines of
the same socket, before that.

What is not kept apart: imported modules and what they remember, what a call adds to the environment, the current folder,
signal handlers, threads, open and temporary files, and memory that is never given back.
"""

import atexit
import builtins
import io
import json
import os
import sys
import types


class Kept(io.BytesIO):
    """Survives being closed by the script: what it holds is read after that."""

    def close(self):
        pass


def serve(script, channel):
    requests = open(channel, "rb", closefd=False)
    with open(script, "rb") as file:
        source = file.read()
    code, added = None, set()
    while True:
        line = requests.readline()
        if not line:
            return
        call = json.loads(line)
        text = requests.read(call["input"])
        for name in added - call["env"].keys():
            os.environ.pop(name, None)
        added = set(call["env"])
        os.environ.update(call["env"])
        out, err = Kept(), Kept()
        sys.stdin = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", errors="surrogateescape")
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="surrogateescape")
        sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        streams = sys.stdout, sys.stderr
        status = 0
        try:
            if code is None:
                code = compile(source, script, "exec", dont_inherit=True)
            main = types.ModuleType("__main__")
            main.__file__ = script
            main.__builtins__ = builtins
            sys.modules["__main__"] = main
            exec(code, main.__dict__)
        except SystemExit as end:
            status = exit_status(end.code)
        except BaseException as error:
            status = 1
            # Without the frame that is not the script's.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            sys.excepthook(type(error), error, error.__traceback__)
        if atexit._ncallbacks():
            atexit._run_exitfuncs()
            atexit._clear()
        for stream in streams:
            try:
                stream.flush()
            except ValueError:  # the script closed it
                pass
        out, err = out.getvalue(), err.getvalue()[-STDERR_BYTES:]
        told = b'{"ended": {"status": %d, "stdout": %d, "stderr": %d, "left": %d}}\n'
        head = told % (status, len(out), len(err), children())
        send(channel, head + out + err)


def children():
    """How many processes the script left, those that have ended waited for."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return 0
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return len(file.read().split())
    except OSError:
        return 1


def exit_status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def send(channel, data):
    sent = os.write(channel, data)
    while sent < len(data):
        sent += os.write(channel, data[sent:sent + 65536])


settings = json.loads(os.environ.pop("OPENSKILL_SHARED"))
STDERR_BYTES = settings["stderr_bytes"]
sys.argv = [settings["script"]]
# As `python3 script` has it; `-c` has the current folder there.
sys.path[:1] = [os.path.dirname(os.path.realpath(settings["script"]))]
# What writes past Python's own streams ends in the log.
os.dup2(2, 1)
serve(settings["script"], int(os.environ["OPENSKILL_EVENTS_FD"]))
