"""The fork server of one skill: it has the script's imports and its compiled code, and forks a process for each call.

Started by the worker, under a supervisor, with this text on descriptor 0, after those beside it. Idle children wait for a message on the
calls socket, a few of them ahead of time; whichever gets one runs that call and exits. Fork server and children tell the supervisor over
the status socket what becomes of them. A child closes both sockets before the script runs. The standard library is all that is needed.
"""

import gc

# What a child calls, by names of its own, as in protocol.py.
from _io import _IOBase, _TextIOBase
from _signal import SIG_DFL, SIGCHLD, set_wakeup_fd
from _signal import signal as set_handler
from _socket import socket
from _thread import _count as count_threads
from ctypes import memmove
from operator import is_ as no_handler
from os import (
    P_ALL, WEXITED, WNOHANG, WNOWAIT, _exit, close, closerange, dup2, environ, fork, fstat, getpid, mkdir, pipe, read, set_inheritable,
    setsid, urandom, waitid, waitpid, write,
)
from resource import RLIM_INFINITY, RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_NPROC, getrlimit, setrlimit

CALL_ID = "OPENSKILL_CALL_ID"
CALL_ID_BYTES = 128
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
# What the server is woken with: Python writes it for a signal, a child that took a call after its number.
WAKE = bytes([SIGCHLD])
# The system's answer to a child that could not even begin.
NOT_BEGUN = 70
# No descriptor has a higher number.
MOST_FILES = getrlimit(RLIMIT_NOFILE)[1]


class Server:
    """The parent of the calls."""

    def __init__(self, settings, calls, status, preloaded):
        # Nobody of the same user may look into it, or write where it writes.
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self.settings = settings
        self.calls = calls
        self.status = status
        self.preloaded = preloaded
        self.apart = Apart(settings["writable"]) if settings["jailed"] else None
        self.base = environ.get("TMPDIR")
        self.idle = set()
        self.busy = set()
        self.place = name_place()
        self.wake_read, self.wake_write = pipe()
        os.set_blocking(self.wake_write, False)
        # What imports may have taken for stdout, and what calls have.
        self.streams = [sys.stdout, sys.stderr, *open_streams()]

    def serve(self):
        # The signal writes to the pipe, and that is all: what is called for it does nothing with its two arguments.
        set_handler(SIGCHLD, no_handler)
        set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        # What is here now is in every child; looking at it for garbage would only copy it.
        gc.collect()
        gc.freeze()
        send_ready(self.status, self.preloaded.files(), self.preloaded.skip)
        while True:
            self.fork_ahead()
            self.notice(read(self.wake_read, 4096))
            self.reap()

    def fork_ahead(self):
        """As many idle children as the load asks for. One call at a time leaves one waiting, and the next is made when it
        has ended: the two would only be in each other's way."""
        least = self.settings["least_idle"] - (len(self.busy) == 1)
        wanted = max(least, min(len(self.busy) - 1, self.settings["most_idle"]))
        while len(self.idle) < wanted and len(self.idle) + len(self.busy) < self.settings["most"]:
            folder = self.temporary_folder()
            try:
                pid = fork()
            except OSError:
                if folder:
                    os.rmdir(folder)
                if not self.idle and not self.busy:
                    raise
                return  # there is no more room; the end of a child makes some
            if pid == 0:
                self.child(folder)
            self.idle.add(pid)

    def notice(self, data):
        """What woke it: the end of a child, or the number of one that took a call. Those of all children fit into one read."""
        for pid in data.split(WAKE):
            if pid and int(pid) in self.idle:
                self.idle.remove(int(pid))
                self.busy.add(int(pid))

    def reap(self):
        while True:
            try:
                pid, status = waitpid(-1, WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.idle:
                # It can't have ended without a word, unless somebody ended it: then it is not for us to go on.
                self.notice(read_waiting(self.wake_read))
                if pid in self.idle:
                    _exit(1)
            self.busy.discard(pid)
            send_exited(self.status, pid, status)

    def temporary_folder(self):
        """A folder for the next child alone, within that of this process; the supervisor removes it."""
        if self.base is None:
            return None
        # Nobody can be there first.
        folder = f"{self.base}/{urandom(16).hex()}"
        mkdir(folder, 0o700)
        return folder

    def child(self, folder):
        """One call, from its message to the end of the process. Never returns."""
        try:
            set_wakeup_fd(-1)
            set_handler(SIGCHLD, SIG_DFL)
            close(self.wake_read)
            setsid()
            # What the call leaves behind stays below it while it lives, and comes to the supervisor when it ends.
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            limit(RLIMIT_CPU, self.settings["cpu_seconds"])
            if self.apart:
                self.apart.enter(folder)
            received = receive_call(self.calls)
            if received is None:
                _exit(0)
            call, descriptors = received
            if self.place:
                call_id = call["env"][CALL_ID].encode()[:CALL_ID_BYTES]
                memmove(self.place, call_id.ljust(CALL_ID_BYTES, b"\0"), CALL_ID_BYTES)
            write(self.wake_write, b"%d%b" % (getpid(), WAKE))
            send_started(self.status, call["call"], getpid(), folder.rpartition("/")[2] if folder else "")
            close(self.wake_write)
            close(self.status)
            self.calls.close()
            limit(RLIMIT_NPROC, call["processes"])
            events = adopt(descriptors)
            end = End(events)
            environment(call, events, folder)
            reseed()
            prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        except BaseException:
            _exit(NOT_BEGUN)
        run(self.settings["script"], self.preloaded.code, self.streams, end)


def name_place():
    """Where the system reads a call's id when it is asked for this process's environment; 0 if that is nowhere.

    A fork shows the environment its parent was started with. So that of the fork server has room for an id.
    """
    libc.getenv.restype = ctypes.c_void_p
    place = libc.getenv(CALL_ID.encode())
    return place if place and len(ctypes.string_at(place)) >= CALL_ID_BYTES else 0


def limit(kind, wanted):
    """Lowers a limit for good; one that is lower already stays."""
    most = getrlimit(kind)[1]
    if (most == RLIM_INFINITY or wanted < most) and wanted != RLIM_INFINITY:
        setrlimit(kind, (wanted, wanted))


def read_waiting(descriptor):
    os.set_blocking(descriptor, False)
    try:
        return read(descriptor, 4096)
    except BlockingIOError:
        return b""
    finally:
        os.set_blocking(descriptor, True)


def open_streams():
    """Standard streams as a call has them, on pipes: each child's own, as they were never used. What stdout and stderr are."""
    for number in range(3):
        saved = os.dup(number)
        read, write = os.pipe()
        os.dup2(write if number else read, number)
        options = {"encoding": "utf-8", "closefd": False, "errors": "backslashreplace" if number == 2 else "surrogateescape"}
        if number == 0:
            sys.stdin = sys.__stdin__ = open(0, "r", **options)
        elif number == 1:
            sys.stdout = sys.__stdout__ = open(1, "w", **options)
        else:
            sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, **options)
        os.dup2(saved, number)
        for descriptor in (saved, read, write):
            os.close(descriptor)
    return [sys.stdout, sys.stderr]


def adopt(descriptors):
    """Makes the call's descriptors this process's own. The number of the one for events."""
    events = descriptors[3]
    for number, descriptor in enumerate(descriptors[:3]):
        dup2(descriptor, number)
        close(descriptor)
    set_inheritable(events, True)
    return events


def environment(call, events, folder):
    for name, value in call["env"].items():
        environ[name] = value
    environ["OPENSKILL_EVENTS_FD"] = str(events)
    if folder:
        environ["TMPDIR"] = folder
        if "tempfile" in sys.modules:
            sys.modules["tempfile"].tempdir = None


def reseed():
    """Python's own random numbers differ in each fork; these do not by themselves."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


class End:
    """How a call says that it has ended, before its process has: to take that down takes longer than many a script, and its caller
    need not wait for it. It is said on the descriptor for events, when all else is written and closed."""

    def __init__(self, events):
        self.events = events
        self.pid = getpid()
        self.place = self.identity()

    def identity(self):
        """Which pipe it is: a script may have closed it, and have something else open by its number."""
        status = fstat(self.events)
        return status.st_ino, status.st_dev

    def is_here(self):
        """Whether this is the end of the call: its own process, alone, that knows where to say it. Its supervisor says it else."""
        if getpid() != self.pid or count_threads():
            return False
        try:
            waitid(P_ALL, 0, WEXITED | WNOHANG | WNOWAIT)
            return False
        except ChildProcessError:
            return self.identity() == self.place

    def let_go(self):
        """What others wait for, a lock, a port, a file's end, does not wait for the process."""
        closerange(3, self.events)
        closerange(self.events + 1, MOST_FILES)

    def tell(self, status):
        send_last_word(self.events, status)


def run(script, code, streams, end):
    """The script, as `python3 script` would run it. Never returns. `streams`: those that were open before."""
    status = 0
    try:
        status = execute(script, code)
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        status = status or 1
    try:
        status = flush(streams, status)
        if end.is_here():
            end.let_go()
            end.tell(status)
    finally:
        _exit(status)


def flush(streams, status):
    """Lets go of what streams and files hold back, as Python does at its end. The exit code, `status` if all went well."""
    for stream in open_files(streams):
        try:
            stream.flush()
        except BaseException:
            pass
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BaseException:
        return 120  # what Python itself says then
    return status


def open_files(streams):
    """Whatever may hold something back: streams, text before the bytes it becomes."""
    # Not io.IOBase, which is asked in Python for each type there is.
    found = [it for it in gc.get_objects() if isinstance(it, _IOBase)]
    found.sort(key=lambda it: not isinstance(it, _TextIOBase))
    return [it for it in (*streams, *found) if it is not sys.stdout]


def main():
    before = dict(environ)
    folder, umask = os.getcwd(), os.umask(0o077)
    os.umask(umask)
    calls_number = int(environ.pop("OPENSKILL_EVENTS_FD"))
    status_number = int(environ.pop("OPENSKILL_STATUS_FD"))
    settings = json.loads(environ.pop("OPENSKILL_FORKSERVER"))
    os.set_inheritable(calls_number, False)
    os.set_inheritable(status_number, False)
    script = settings["script"]
    sys.argv = [script]
    own_place(script)
    preloading = Preloading(script, settings["skip"])
    unfit = preloading.load()
    if unfit is not None:
        # It left threads or open files, which forks would share or lose: begin again without it.
        settings["skip"].append(unfit)
        for pid in children() or ():
            os.kill(pid, signal.SIGKILL)
        os.set_inheritable(calls_number, True)
        os.set_inheritable(status_number, True)
        os.chdir(folder)
        os.umask(umask)
        os.execve(sys.executable, settings["argv"], {**before, "OPENSKILL_FORKSERVER": json.dumps(settings)})
    Server(settings, socket(fileno=calls_number), status_number, preloading).serve()


main()
