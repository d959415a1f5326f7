"""One interpreter for many calls of one trusted script: its compiled code runs again and again, with fresh globals.

Started by the worker, under a supervisor, with this text on descriptor 0, after script.py. Descriptor OPENSKILL_EVENTS_FD is
the queue of its calls, one message each; the worker may take back those that were not begun. A message is the number of the call (eight
bytes), the length of its environment (four), the environment, and the input; a large input is in a file that comes with the message. The
environment is the values of the names in the settings, in their order, separated by zero bytes.

Descriptor 1 is a stream to the worker. The answer to a call is a line `{"ended": {...}}` with its number, the exit code
and the lengths of stdout and stderr, which follow. Events of the script are lines of the same stream, before that; an empty
line ends one that it left unfinished.

What is not kept apart: imported modules and what they remember, what a call adds to the environment, the current folder,
signal handlers, threads, open and temporary files, and memory that is never given back.
"""

import _socket
import io
import json

HEAD_BYTES = 12
MESSAGE_BYTES = 64 * 1024
RIGHTS_BYTES = _socket.CMSG_SPACE(4)


class Kept(io.BytesIO):
    """Survives being closed by the script, so that its content can be read afterwards."""

    def close(self):
        pass


def set_environment(names, values):
    """Sets the environment of a call. All of it: the script before may have changed any."""
    for name, value in zip(names, values):
        os.environb[name] = value
    for name in names[len(values):]:
        os.environb.pop(name, None)


def serve(script, calls, answers, names):
    code = compiled(script)
    left, own = 0, os.getpid()
    # After a call that left processes behind there is no next one: they end with this interpreter.
    while not left:
        message, rights, _, _ = calls.recvmsg(MESSAGE_BYTES, RIGHTS_BYTES)
        if not message:
            return
        end = HEAD_BYTES + int.from_bytes(message[8:HEAD_BYTES], "little")
        set_environment(names, message[HEAD_BYTES:end].split(b"\0"))
        text = from_file(rights[0][2]) if rights else message[end:]
        sys.stdin = io.TextIOWrapper(io.BytesIO(text), "utf-8", "surrogateescape")
        out, err = Kept(), Kept()
        sys.stdout = stdout = io.TextIOWrapper(out, "utf-8", "surrogateescape")
        sys.stderr = stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", None, True)
        status = execute(script, code)
        if os.getpid() != own:
            os._exit(status)  # a process that the script forked came to the script's end
        if atexit._ncallbacks():
            atexit._run_exitfuncs()
            atexit._clear()
        for stream in (stdout, stderr):
            try:
                stream.flush()
            except ValueError:  # the script closed it
                pass
        out, err = out.getvalue(), err.getvalue()[-STDERR_BYTES:]
        left = left_behind()
        number = int.from_bytes(message[:8], "little")
        told = b'\n{"ended": {"call": %d, "status": %d, "stdout": %d, "stderr": %d, "left": %d}}\n'
        send(answers, told % (number, status, len(out), len(err), left) + out + err)


def from_file(right):
    with open(int.from_bytes(right, sys.byteorder), "rb") as file:
        return file.read()


def left_behind():
    """How many processes the script left running, after reaping those that have exited."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return 0
    listed = children()
    return 1 if listed is None else len(listed)


def send(answers, data):
    sent = os.write(answers, data)
    while sent < len(data):
        sent += os.write(answers, data[sent:sent + 65536])


settings = json.loads(os.environ.pop("OPENSKILL_SHARED"))
STDERR_BYTES = settings["stderr_bytes"]
sys.argv = [settings["script"]]
own_place(settings["script"])
calls = _socket.socket(fileno=int(os.environ["OPENSKILL_EVENTS_FD"]))
os.set_inheritable(calls.fileno(), False)
# The script's own children may report events too.
answers = os.dup(1)
os.set_inheritable(answers, True)
os.environ["OPENSKILL_EVENTS_FD"] = str(answers)
# What writes past Python's own streams ends in the log.
os.dup2(2, 1)
serve(settings["script"], calls, answers, [name.encode() for name in settings["names"]])
