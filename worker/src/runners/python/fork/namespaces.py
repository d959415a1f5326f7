"""Puts each child of a fork server into namespaces of its own: users, processes and mounts. Part of its program, after apart.py.

The fork server has one capability for it, CAP_SYS_ADMIN in its own user namespace. A child gives it up before it has a call.

A namespace of processes begins with a process 1, which the kernel protects from signals of its namespace. A script is not to be
that process: it could not end itself by a signal. So a process that only waits comes first. It shares the memory of the fork
server, as a thread does, and costs as little; when it is killed, the kernel ends all that is in its namespace.
"""

import mmap

# By names of their own, as all that a child calls.
from os import O_CLOEXEC, O_RDONLY, O_WRONLY, close, getegid, geteuid, kill, read, readlink, write
from os import open as open_file
# Not from `signal`, which turns each of them into an object, twice.
from _signal import SIG_BLOCK, SIG_SETMASK, SIGCHLD, SIGKILL, pthread_sigmask, valid_signals

CLONE_VM = 0x00000100
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION = 0x20080522
# Far more than a system call that waits needs.
STACK_BYTES = 16 * 1024
# As in linux/filter.h: the length of a statement, and a program as prctl(2) takes it.
STATEMENT_BYTES = 8


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("statements", ctypes.c_char_p)]


class Namespaces:
    """What each child enters. All that can be prepared once is."""

    # A child's temporary folder needs no name: nobody else sees it, and it goes with the namespace.
    folder = None

    def __init__(self, settings):
        # Nobody but the fork server sees the children, and a child must write its own user mapping.
        self.own = open_file("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)
        self.temp = settings["temp"].encode()
        self.temp_options = settings["temp_options"].encode()
        self.proc = settings["proc"].encode()
        self.rules = settings["rules"]
        if self.rules is not None:
            os.set_inheritable(self.rules, False)
        statements = bytes.fromhex(settings["filter"])
        self.filter = Filter(len(statements) // STATEMENT_BYTES, statements) if statements else None
        self.all_signals = valid_signals()
        # Process 1 of each child's namespace, by the child; their stacks, by process; and the stacks of those that have ended.
        self.first = {}
        self.used = {}
        self.stacks = []
        self.capability_header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        self.capabilities = (ctypes.c_uint32 * 6)()
        self.maps = (
            ("/proc/self/setgroups", b"deny"),
            ("/proc/self/uid_map", b"%d %d 1" % (geteuid(), geteuid())),
            ("/proc/self/gid_map", b"%d %d 1" % (getegid(), getegid())),
        )

    def before_fork(self):
        """Makes a namespace for the next child. Gives its process 1."""
        # Back to the server's own first: a namespace of processes is made only from there.
        done(libc.setns(self.own, CLONE_NEWPID))
        done(libc.unshare(CLONE_NEWPID))
        stack = self.stacks.pop() if self.stacks else Stack()
        # It must run no handler of this process's memory: it gets no signal but the one that ends it.
        before = pthread_sigmask(SIG_BLOCK, self.all_signals)
        pid = libc.clone(libc.pause, stack.top, CLONE_VM | SIGCHLD, None)
        pthread_sigmask(SIG_SETMASK, before)
        if pid < 0:
            raise OSError(ctypes.get_errno(), "no process 1")
        self.used[pid] = stack
        return pid

    def end(self, first):
        """Kills all that is in a namespace. Its process 1 exits when nothing is left there. Whether that is still to come."""
        if first in self.used:
            kill(first, SIGKILL)
        return first in self.used

    def has_ended(self, pid):
        """Whether a process that was reaped is process 1 of a namespace."""
        stack = self.used.pop(pid, None)
        if stack:
            self.stacks.append(stack)
        return stack is not None

    def number(self):
        """The process id of this child, as the fork server knows it: before `enter`."""
        return int(readlink("/proc/self"))

    def enter(self):
        """The calling child has its own from here on, and no capability to make others."""
        done(libc.unshare(CLONE_NEWNS))
        done(libc.mount(b"tmpfs", self.temp, b"tmpfs", MS_NOSUID | MS_NODEV, self.temp_options))
        done(libc.mount(b"proc", self.proc, b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None))
        self.enter_users()
        if self.rules is not None:
            done(syscall(LANDLOCK_RESTRICT_SELF, self.rules, 0))
            close(self.rules)
        close(self.own)
        if self.filter:
            done(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(self.filter), 0, 0))
        # The bounding set stays: nothing gains a capability under no_new_privs, and each of them would cost as much as a mount.
        done(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
        done(libc.capset(self.capability_header, self.capabilities))

    def enter_users(self):
        """A user namespace with the same user, in which the limit on processes counts this call's alone."""
        done(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        done(libc.unshare(CLONE_NEWUSER))
        for path, mapping in self.maps:
            descriptor = open_file(path, O_WRONLY | O_CLOEXEC)
            write(descriptor, mapping)
            close(descriptor)


def living(first):
    """How many processes run in a namespace whose call has exited, beside its process 1: that one has taken over what was left."""
    listed = None
    while True:
        before, listed = listed, children_of(first)
        # What is dead stays, and what it left has come by the time it is: nothing new beside the dead is nothing at all.
        if not listed or listed == before:
            return 0
        count = sum(map(runs, below(first))) if any(map(runs, listed)) else 0
        if count:
            return count


def below(first):
    """The descendants of a process."""
    children, found = {}, [first]
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        children.setdefault(state_and_parent(pid)[1], []).append(pid)
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


def children_of(pid):
    """The children of a process with one thread."""
    try:
        descriptor = open_file(f"/proc/{pid}/task/{pid}/children", O_RDONLY | O_CLOEXEC)
    except OSError:
        # Not every kernel lists them.
        return [int(it) for it in os.listdir("/proc") if it.isdigit() and state_and_parent(int(it))[1] == pid]
    listed = read(descriptor, 4096)
    close(descriptor)
    return list(map(int, listed.split()))


def runs(pid):
    """Whether a process has not exited: one whose first thread has looks as if it had, while its other threads run on."""
    state = state_and_parent(pid)[0]
    if state != "Z":
        return state != "X"
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def state_and_parent(pid):
    """As `/proc` has them, after a name that may hold anything. A process that is gone is dead, and nobody's child."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
        return state.decode(), int(parent)
    except (OSError, ValueError):
        return "X", 0


class Stack:
    """Memory for a process that only waits."""

    def __init__(self):
        self.memory = mmap.mmap(-1, STACK_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.top = ctypes.c_void_p(begin + STACK_BYTES - 64)


def done(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "a namespace could not be entered")
