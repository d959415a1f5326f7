"""The fork server of one skill: it has the script's imports and its compiled code, and forks a process for each call.

Started by the worker, under a supervisor, with this text on descriptor 0, after those beside it. Idle children wait for a message on the
calls socket, a few of them ahead of time; whichever gets one runs that call and exits. Fork server and children tell the supervisor over
the status socket what becomes of them. A child closes both sockets before the script runs. The standard library is all that is needed.
"""

import gc

# What a child calls, by names of its own, as in protocol.py.
from _signal import SIG_DFL, SIGCHLD, set_wakeup_fd
from _signal import signal as set_handler
from _socket import socket
from ctypes import memmove
from operator import is_ as no_handler
from os import WNOHANG, _exit, close, environ, fork, getpid, mkdir, nice, pipe, read, setsid, urandom, waitpid, write
from resource import RLIM_INFINITY, RLIMIT_CPU, RLIMIT_NPROC, getrlimit, setrlimit
from select import POLLIN, poll
from time import monotonic

CALL_ID = "OPENSKILL_CALL_ID"
CALL_ID_BYTES = 128
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
# Wakes the server: Python writes it for a signal, and a child that took a call writes it after its process id.
WAKE = bytes([SIGCHLD])
# Between two looks at what calls left behind, and how long the next fork waits for the end of a call, in milliseconds.
STEP = 5
MOMENT = 2
LARGEST_LIMIT = 2**63 - 1
# The exit code of a child that failed before its script.
NOT_BEGUN = 70


class Server:
    """The parent of the calls."""

    def __init__(self, settings, calls, status, preloaded):
        self.settings = settings
        self.calls = calls
        self.status = status
        self.preloaded = preloaded
        # Before this process gives up its own files below.
        self.namespaces = Namespaces(settings["namespaces"]) if settings["namespaces"] else None
        # No process of the same user may trace it or open its descriptors.
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self.apart = PerForkIsolation(settings["writable"]) if settings["jailed"] and not self.namespaces else None
        self.base = environ.get("TMPDIR")
        self.makes_folders = self.base is not None and not self.namespaces
        self.idle = set()
        self.busy = set()
        # Calls that have exited, while what they left behind has time to end: process id, status, process 1, and until when.
        self.ending = []
        # By the process 1 that was killed, while its namespace ends: the call's process id, status, and what it had left.
        self.killed = {}
        self.shown_id = find_shown_id()
        self.wake_read, self.wake_write = pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)
        self.waked = poll()
        self.waked.register(self.wake_read, POLLIN)
        # What imports may have kept as stdout, and what calls use.
        self.streams = [sys.stdout, sys.stderr, *open_streams()]

    def serve(self):
        # The signal only writes to the pipe: its handler ignores both arguments.
        set_handler(SIGCHLD, no_handler)
        set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        # All objects that exist now are in every child. A collection would write to them, and so copy their pages.
        gc.collect()
        gc.freeze()
        send_ready(self.status, self.preloaded.files(), self.preloaded.skip)
        while True:
            self.fork_ahead()
            self.attend(STEP if self.ending else None)
            if self.killed:
                self.attend(MOMENT)

    def attend(self, most):
        """Waits until a child has something to say, at most so long: something may end that no signal tells of."""
        self.waked.poll(most)
        self.notice(self.read_waiting())
        self.reap()
        self.settle()

    def fork_ahead(self):
        """Keeps as many idle children as the load needs. During a single call one waits; the next is forked after the call, so
        as not to slow it down."""
        least = self.settings["least_idle"] - (len(self.busy) == 1)
        wanted = max(least, min(len(self.busy) - 1, self.settings["most_idle"]))
        while len(self.idle) < wanted and len(self.idle) + len(self.busy) < self.settings["most"]:
            folder, first = self.temporary_folder(), None
            try:
                if self.namespaces:
                    first = self.namespaces.before_fork()
                pid = fork()
            except OSError:
                if first:
                    self.namespaces.end(first)
                if folder:
                    os.rmdir(folder)
                if not (self.idle or self.busy or self.ending or self.killed):
                    raise
                return  # at the limit of processes; tried again when a child has exited
            if pid == 0:
                self.child(folder, first)
            if first:
                self.namespaces.first[pid] = first
            self.idle.add(pid)

    def read_waiting(self):
        try:
            return read(self.wake_read, 4096)
        except BlockingIOError:
            return b""

    def notice(self, data):
        """Children that took a call, by their process ids. Those of all children fit into one read."""
        for pid in data.split(WAKE):
            if pid and int(pid) in self.idle:
                self.idle.remove(int(pid))
                self.busy.add(int(pid))

    def reap(self):
        pid, status = next_exited()
        while pid:
            if pid in self.idle:
                # A child does not exit idle unless somebody killed it: then this server can't be trusted to go on.
                self.notice(self.read_waiting())
                if pid in self.idle:
                    _exit(1)
            if self.namespaces and self.namespaces.has_ended(pid):
                if pid in self.killed:
                    send_exited(self.status, *self.killed.pop(pid))
            elif pid in self.busy:
                self.busy.remove(pid)
                self.end_strays()
                self.end(pid, status)
            else:
                self.end_strays()
            pid, status = next_exited()

    def end(self, pid, status):
        """A call has exited."""
        if self.namespaces:
            # What a call left that was killed need not end by itself.
            until = 0 if status == SIGKILL else monotonic() + GRACE
            self.ending.append((pid, status, self.namespaces.first.pop(pid), until))
        else:
            send_exited(self.status, pid, status, 0)

    def end_strays(self):
        """Kills the children that this process did not start. A call makes some, by CLONE_PARENT, where no filter refuses it. Nothing
        waits for them; when one exits, it may have made another."""
        known = self.idle | self.busy
        for pid in children() or ():
            if pid not in known and not (self.namespaces and pid in self.namespaces.used):
                kill(pid, SIGKILL)

    def settle(self):
        """Ends the namespaces of calls that have exited, once nothing is left in them or its time is over. That may take a while: what
        is killed may have files to close, and what is a child of this process must be reaped first."""
        ending, self.ending = self.ending, []
        for it in ending:
            pid, status, first, until = it
            left = living(first)
            if left and monotonic() < until:
                self.ending.append(it)
            elif self.namespaces.end(first):
                self.killed[first] = pid, status, left
            else:
                send_exited(self.status, pid, status, left)

    def temporary_folder(self):
        """A temporary directory for the next child, within that of this process. The supervisor removes it."""
        if not self.makes_folders:
            return None
        # Random, so that no call can create it first.
        folder = f"{self.base}/{urandom(16).hex()}"
        mkdir(folder, 0o700)
        return folder

    def child(self, folder, first):
        """One call, from its message to the end of the process. Never returns."""
        try:
            set_wakeup_fd(-1)
            set_handler(SIGCHLD, SIG_DFL)
            close(self.wake_read)
            setsid()
            # Orphans of the call stay below this process while it lives, and come to the supervisor when it exits.
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            # SIGXCPU shows why the process ended. One that ignores it is killed a second later.
            limit(RLIMIT_CPU, self.settings["cpu_seconds"], 1)
            pid = getpid()
            if self.namespaces:
                pid = self.namespaces.number()
                self.namespaces.enter()
            elif self.apart:
                self.apart.enter(folder)
            # While it waits anyway.
            reseed()
            received = receive_call(self.calls)
            if received is None:
                _exit(0)
            call, descriptors = received
            if self.shown_id:
                call_id = call["env"][CALL_ID].encode()[:CALL_ID_BYTES]
                memmove(self.shown_id, call_id.ljust(CALL_ID_BYTES, b"\0"), CALL_ID_BYTES)
            if call["nice"]:
                nice(call["nice"])
            write(self.wake_write, b"%d%b" % (pid, WAKE))
            # The supervisor gives the session the weight that the process has now.
            send_started(self.status, call["call"], pid, first or 0, folder.rpartition("/")[2] if folder else "")
            close(self.wake_write)
            close(self.status)
            self.calls.close()
            limit(RLIMIT_NPROC, call["processes"])
            events = adopt(descriptors)
            last_word = LastWord(events, self.namespaces is not None)
            environment(call, events, folder or self.base)
            prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        except BaseException:
            _exit(NOT_BEGUN)
        self.preloaded.run(self.streams, last_word)


def find_shown_id():
    """The address of the call id that `/proc/<pid>/environ` shows; 0 if there is none.

    A fork shows the environment its parent was started with, so the fork server's has room for an id.
    """
    libc.getenv.restype = ctypes.c_void_p
    address = libc.getenv(CALL_ID.encode())
    return address if address and len(ctypes.string_at(address)) >= CALL_ID_BYTES else 0


def limit(kind, soft, more=0):
    """Lowers a soft limit, and the hard one to `more` above it; a hard one that is lower already stays."""
    hard = getrlimit(kind)[1]
    hard = LARGEST_LIMIT if hard == RLIM_INFINITY else hard
    if soft < hard and soft != RLIM_INFINITY:
        setrlimit(kind, (soft, min(soft + more, hard)))


def next_exited():
    """A child that has exited, and its status; zeros if there is none."""
    try:
        return waitpid(-1, WNOHANG)
    except ChildProcessError:
        return 0, 0


def open_streams():
    """Makes standard streams as a call has them, on pipes, unused. Gives stdout and stderr."""
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


def main(preloads):
    """`preloads`: the class of what is loaded ahead of calls, and runs them."""
    before = dict(environ)
    folder, umask = os.getcwd(), os.umask(0o077)
    os.umask(umask)
    calls_number = int(environ.pop("OPENSKILL_EVENTS_FD"))
    status_number = int(environ.pop("OPENSKILL_STATUS_FD"))
    settings = json.loads(environ.pop("OPENSKILL_FORKSERVER"))
    settings["namespaces"] = json.loads(environ.pop("OPENSKILL_APART", "null"))
    if settings["namespaces"] and settings["namespaces"]["rules"] is not None:
        os.set_inheritable(settings["namespaces"]["rules"], False)
    os.set_inheritable(calls_number, False)
    os.set_inheritable(status_number, False)
    preloading = preloads(settings)
    unfit = preloading.load()
    if unfit is not None:
        # It left threads or open files behind, which forks would lose or share: start again without it.
        settings["skip"].append(unfit)
        for pid in children() or ():
            os.kill(pid, signal.SIGKILL)
        os.set_inheritable(calls_number, True)
        os.set_inheritable(status_number, True)
        if settings["namespaces"] and settings["namespaces"]["rules"] is not None:
            os.set_inheritable(settings["namespaces"]["rules"], True)
        os.chdir(folder)
        os.umask(umask)
        os.execve(sys.executable, settings["argv"], {**before, "OPENSKILL_FORKSERVER": json.dumps(settings)})
    Server(settings, socket(fileno=calls_number), status_number, preloading).serve()
