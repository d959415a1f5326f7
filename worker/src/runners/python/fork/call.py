"""What the process of a call does: takes over descriptors and environment, runs the script, and says its last word. Part of the program
of a fork server, after protocol.py.
"""

import gc

# By names of their own, as in protocol.py.
from _io import _IOBase, _TextIOBase
from _thread import _count as count_threads
from os import (
    P_ALL, WEXITED, WNOHANG, WNOWAIT, _exit, close, closerange, dup2, environ, fstat, getpid, kill, listdir, set_inheritable, waitid,
    waitpid,
)
from resource import RLIMIT_NOFILE, getrlimit

# How long what a script started may take to end by itself, in seconds: Python's own helper processes do, a moment after the script.
GRACE = 0.2
SIGKILL = 9
# Also children that send no SIGCHLD when they exit (wait(2)).
WALL = 0x40000000
# No descriptor has a higher number.
MOST_FILES = getrlimit(RLIMIT_NOFILE)[1]


def adopt(descriptors):
    """Takes over the call's descriptors. Gives the number of the one for events."""
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
    """Seeds NumPy's global state, which is the same in each fork. Python seeds its own."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


class LastWord:
    """Says that a call has ended before its process has exited: that takes longer than many a script runs, and the caller need not
    wait for it."""

    def __init__(self, events, alone):
        self.events = events
        # It has a namespace of processes of its own.
        self.alone = alone
        self.pid = getpid()
        self.file = self.identity()

    def identity(self):
        """Which file the descriptor is: a script may have closed it, and opened something else by its number."""
        status = fstat(self.events)
        return status.st_ino, status.st_dev

    def may_be_said(self):
        """Whether the call ends here: in its own process, without threads, and with its own descriptor. Otherwise the supervisor reports
        its end, and the fork server ends what it left."""
        return getpid() == self.pid and not count_threads() and self.identity() == self.file

    def end_others(self):
        """Ends what the script left running, as process 1 of a namespace of its own. How many there were."""
        if not self.alone or not has_children():
            return 0
        import time

        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            if not reap():
                return 0
            time.sleep(0.002)
        # Process 1 of the namespace and this one are not left over.
        left = sum(name.isdigit() for name in listdir("/proc")) - 2
        kill(-1, SIGKILL)
        while reap():
            time.sleep(0.001)
        return left

    def close_all_else(self):
        """Others that wait for a lock, a port or the end of a file do not have to wait for the process."""
        closerange(3, self.events)
        closerange(self.events + 1, MOST_FILES)


def has_children():
    try:
        waitid(P_ALL, 0, WEXITED | WNOHANG | WNOWAIT | WALL)
        return True
    except ChildProcessError:
        return False


def reap():
    """Reaps the children that have exited. Whether any is left."""
    try:
        while waitpid(-1, WNOHANG | WALL)[0]:
            pass
        return True
    except ChildProcessError:
        return False


def run(script, code, function, streams, last_word):
    """Runs the script as `python3 script` would, or calls one of its functions. Never returns. `streams`: those that were open before."""
    status = 0
    try:
        status = execute(script, code, function)
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        status = status or 1
    try:
        status = flush(streams, status)
        if last_word.may_be_said():
            left = last_word.end_others()
            if not has_children():
                last_word.close_all_else()
                send_last_word(last_word.events, status, left)
    finally:
        _exit(status)


def flush(streams, status):
    """Flushes streams and files, as Python does at exit. Gives the exit code: `status` if all went well."""
    for stream in open_files(streams):
        try:
            stream.flush()
        except BaseException:
            pass
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BaseException:
        return 120  # as Python exits then
    return status


def open_files(streams):
    """All that may have buffered something, text streams before the byte streams below them."""
    # Not io.IOBase: its instance check runs in Python.
    found = [it for it in gc.get_objects() if isinstance(it, _IOBase)]
    found.sort(key=lambda it: not isinstance(it, _TextIOBase))
    return [it for it in (*streams, *found) if it is not sys.stdout]
