"""The messages of a fork server and its children, as crates/sandbox/src/protocol.rs has them: who sends what, and when, is there.
One JSON object is one packet. Part of the program of a fork server.
"""

import json
from array import array

# By names of their own: a child that looks them up on their modules writes to the interpreter's cache of such names.
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET
from os import write

PACKET_BYTES = 64 * 1024
# stdin, stdout, stderr, events.
DESCRIPTORS = 4
DESCRIPTORS_SPACE = CMSG_SPACE(DESCRIPTORS * array("i").itemsize)


def send_ready(status, files, not_preloaded):
    """Calls are served from now on. `not_preloaded`: import statements, each with what it leaves behind."""
    write(status, json.dumps({"ready": {"files": files, "not_preloaded": not_preloaded}}).encode("ascii"))


def send_started(status, call, pid, first, folder):
    """This child has the call; `first` is process 1 of its namespace, 0 if it has none of its own; `folder` is the name of its temporary
    directory. Before the script runs."""
    message = b'{"started": {"call": %d, "pid": %d, "first": %d, "folder": "%s"}}'
    write(status, message % (call, pid, first, folder.encode("ascii")))


def send_exited(status, pid, wait_status, leftovers):
    """A child has exited, and left so many processes in its namespace, which were killed."""
    write(status, b'{"exited": {"pid": %d, "status": %d, "leftovers": %d}}' % (pid, wait_status, leftovers))


def receive_call(calls):
    """The next call and its descriptors. None: there will be none."""
    data, ancillary, _flags, _address = calls.recvmsg(PACKET_BYTES, DESCRIPTORS_SPACE)
    if not data:
        return None
    descriptors = array("i")
    for level, kind, rights in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            descriptors.frombytes(rights[:len(rights) - len(rights) % descriptors.itemsize])
    if len(descriptors) != DESCRIPTORS:
        raise OSError("a call without its descriptors")
    return json.loads(data), descriptors


def send_last_word(events, exit_code, leftovers):
    """The script has ended, and all it wrote is in its pipes. What it left in the line before is no event. `leftovers`: how many
    processes it left running, which were killed."""
    write(events, b"\x04%d %d\n" % (exit_code, leftovers))
