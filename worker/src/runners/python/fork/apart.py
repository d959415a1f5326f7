"""Keeps the calls of one fork server apart from each other. Part of its program."""

import ctypes

# By names of their own, as all that a child calls.
from os import O_CLOEXEC, O_PATH, close
from os import open as open_file
from sys import byteorder

libc = ctypes.CDLL(None, use_errno=True)
prctl = libc.prctl
syscall = libc.syscall

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
LANDLOCK_VERSION = 1
LANDLOCK_PATH_BENEATH = 1
LANDLOCK_SCOPE_SIGNAL = 2
# To write and truncate a file; to remove, make and link what is in a folder. Each since its version of the interface.
CHANGE_FILE = {1: 1 << 1, 3: 1 << 14}
CHANGE_FOLDER = {1: sum(1 << bit for bit in range(4, 13)), 2: 1 << 13}
# Devices that every process may write to.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")


class PerForkIsolation:
    """Landlock rules for each call, on top of those of the fork server: it signals only its own processes, and changes only its own
    temporary files. As far as the kernel supports that. All but the rule for its own directory is prepared once."""

    def __init__(self, writable):
        self.bounds, self.opened = [], []
        version = syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
        file = sum(right for since, right in CHANGE_FILE.items() if since <= version)
        self.whole = file + sum(right for since, right in CHANGE_FOLDER.items() if since <= version)
        scope = LANDLOCK_SCOPE_SIGNAL if version >= 6 else 0
        bounded = writable is not None and "TMPDIR" in os.environ and version >= 1
        self.size = 8 * (3 if version >= 6 else 2 if version >= 4 else 1) if bounded or scope else 0
        self.attributes = (ctypes.c_uint64 * 3)(self.whole if bounded else 0, 0, scope)
        if bounded:
            for paths, rights in ((writable, self.whole), (DEVICES, file)):
                for path in paths:
                    beneath = open_file(path, O_PATH | O_CLOEXEC)
                    self.opened.append(beneath)
                    self.bounds.append(rule(rights, beneath))

    def enter(self, folder):
        if not self.size:
            return
        ruleset = syscall(LANDLOCK_CREATE_RULESET, self.attributes, self.size, 0)
        if ruleset < 0:
            raise OSError("no ruleset")
        bounds = self.bounds
        if bounds:
            beneath = open_file(folder, O_PATH | O_CLOEXEC)
            self.opened.append(beneath)
            bounds = [*bounds, rule(self.whole, beneath)]
        for bound in bounds:
            if syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, bound, 0) != 0:
                raise OSError("no rule")
        if syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:
            raise OSError("the rules are not in force")
        close(ruleset)
        for beneath in self.opened:
            close(beneath)


def rule(rights, beneath):
    """A packed `landlock_path_beneath_attr`: eight bytes of rights, four of a descriptor."""
    return rights.to_bytes(8, byteorder) + beneath.to_bytes(4, byteorder)
