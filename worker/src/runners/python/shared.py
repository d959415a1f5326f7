"""One interpreter for many calls of one trusted script: its compiled code runs again and again, with fresh globals.

Started by the worker, under a supervisor, with this text on descriptor 0, after script.py. Descriptor OPENSKILL_EVENTS_FD is
the queue of its calls, one message each; the worker may take back those that were not begun. A message is the number of the call (eight
bytes), the length of its environment (four), the environment, and the input; a large input is in a file that comes with the message. The
environment is the values of the names in the settings, in their order, separated by zero bytes.

Descriptor 1 is a stream to the worker. The answer to a call is a line `{"ended": {...}}` with its number, the exit code
and the lengths of stdout and stderr, which follow; `last` tells that this interpreter takes no other call. Events of the script are lines of the same stream, before that; an empty
line ends one that it left unfinished.

What is not kept apart: imported modules and what they remember, signal handlers, files, and memory that is never given back. What can
be put back after a call is (`Start.restore`). An interpreter that a call changed for good ends after it, and another one takes its place.
"""

import _signal
import _socket
import _thread
import ctypes
import io
import json
import resource
import time

HEAD_BYTES = 12
MESSAGE_BYTES = 64 * 1024
RIGHTS_BYTES = _socket.CMSG_SPACE(4)


PR_SET_CHILD_SUBREAPER = 36
# Also children that send no SIGCHLD when they exit (wait(2)).
WALL = 0x40000000
# An interpreter ends after so many calls, or so many seconds: memory that scripts leak is given back.
MOST_CALLS = 10_000
MOST_SECONDS = 3600
LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CPU)
TIMERS = (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)


class Kept(io.BytesIO):
    """What a script writes, as much of it as is passed on. Survives being closed by the script, so that it can be read afterwards."""

    def __init__(self, most):
        super().__init__()
        self.most = most

    def write(self, data):
        # One byte more tells that there was too much.
        data = memoryview(data).cast("B")
        super().write(data[:max(0, self.most + 1 - self.tell())])
        return len(data)

    def close(self):
        pass


class Tail(Kept):
    """The last of what a script writes."""

    def write(self, data):
        data = memoryview(data).cast("B")
        io.BytesIO.write(self, data[-self.most:])
        if self.tell() > 2 * self.most:
            last = self.getvalue()[-self.most:]
            self.seek(0)
            self.truncate()
            io.BytesIO.write(self, last)
        return len(data)


class Start:
    """What each call begins with: as it was before the first one."""

    def __init__(self, names):
        self.names = names
        self.environment = {name: value for name, value in os.environb.items() if name not in names}
        self.folder = os.getcwd()
        self.umask = os.umask(0o077)
        os.umask(self.umask)
        self.mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        self.argv, self.path = list(sys.argv), list(sys.path)
        self.threads = _thread._count()
        self.limits = [resource.getrlimit(limit) for limit in LIMITS]
        self.descriptor = lowest_free()
        self.time = time.monotonic()

    def restore(self, values):
        """Sets what a call begins with; `values` are those of the call's environment."""
        wanted = {**self.environment, **dict(zip(self.names, values))}
        if dict(os.environb) != wanted:
            for name in set(os.environb) - set(wanted):
                del os.environb[name]
            os.environb.update(wanted)
        sys.argv[:], sys.path[:] = self.argv, self.path
        os.chdir(self.folder)
        os.umask(self.umask)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self.mask)
        for timer in TIMERS:
            _signal.setitimer(timer, 0)

    def is_lasting(self):
        """Whether a call left what can't be put back: threads, descriptors, limits; or the interpreter is old."""
        return (
            _thread._count() != self.threads
            or lowest_free() != self.descriptor
            or [resource.getrlimit(limit) for limit in LIMITS] != self.limits
            or time.monotonic() - self.time > MOST_SECONDS
        )


def lowest_free():
    """The number that the next descriptor would have."""
    try:
        descriptor = os.dup(answers)
    except OSError:
        return -1
    os.close(descriptor)
    return descriptor


def serve(script, function, calls, answers, names):
    code = compiled(script)
    own, start = os.getpid(), Start(names)
    for served in range(1, MOST_CALLS + 1):
        message, rights, _, _ = calls.recvmsg(MESSAGE_BYTES, RIGHTS_BYTES)
        if not message:
            return
        end = HEAD_BYTES + int.from_bytes(message[8:HEAD_BYTES], "little")
        start.restore(message[HEAD_BYTES:end].split(b"\0"))
        text = from_file(rights[0][2]) if rights else message[end:]
        sys.stdin = io.TextIOWrapper(io.BytesIO(text), "utf-8", "surrogateescape")
        out, err = Kept(OUTPUT_BYTES), Tail(STDERR_BYTES)
        sys.stdout = stdout = io.TextIOWrapper(out, "utf-8", "surrogateescape")
        sys.stderr = stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", None, True)
        status = execute(script, code, function)
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
        is_last = left or start.is_lasting() or served == MOST_CALLS
        number = int.from_bytes(message[:8], "little")
        told = b'\n{"ended": {"call": %d, "status": %d, "stdout": %d, "stderr": %d, "left": %d, "last": %s}}\n'
        last = b"true" if is_last else b"false"
        send(answers, told % (number, status, len(out), len(err), left, last) + out + err)
        # The worker ends this interpreter, with all that the call left running: to end by itself, it would wait for threads.
        if is_last:
            return


def from_file(right):
    with open(int.from_bytes(right, sys.byteorder), "rb") as file:
        return file.read()


def left_behind():
    """How many processes the script left running, after reaping those that have exited."""
    try:
        while os.waitpid(-1, os.WNOHANG | WALL)[0]:
            pass
    except ChildProcessError:
        # Without a filter, it may have made a child of the supervisor's (CLONE_PARENT).
        return 0 if settings["filtered"] else len(children(os.getppid()) or [0]) - 1
    # A child of another thread is not listed.
    return len(children() or [0])


def send(answers, data):
    sent = os.write(answers, data)
    while sent < len(data):
        sent += os.write(answers, data[sent:sent + 65536])


settings = json.loads(os.environ.pop("OPENSKILL_SHARED"))
STDERR_BYTES = settings["stderr_bytes"]
OUTPUT_BYTES = settings["output_bytes"]
# What a call's children leave behind is found, whatever session it is in.
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
serve(settings["script"], settings["function"], calls, answers, [name.encode() for name in settings["names"]])
