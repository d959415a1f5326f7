"""Lays out a fork server's memory so that its children share most of it. A page that a child writes to is copied, and a page of
a file that it reads is mapped anew; either costs microseconds, and together they are most of what a call costs. Part of the
program of a fork server.

How interpreter and C library keep their memory is guessed at here. Where a guess is wrong nothing is won, and nothing lost.
"""

import ctypes
import gc
import time

HUGE_PAGE_BYTES = 1 << 21
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_PRIVATE_ANONYMOUS = 0x22
MAP_FAILED = (1 << 64) - 1
MADV_HUGEPAGE = 14
MREMAP_MAYMOVE_FIXED = 3
# Each fork server has its own: an interpreter with more code leaves it where it is.
MOST_CODE_BYTES = 16 << 20
# Python's allocator: the sizes of its blocks, of its pools, and where in one the first block is.
BLOCK_BYTES = range(48, 513, 16)
POOL_BYTES = 16 * 1024
POOL_FIRST = 48
# The C library's: the sizes of its pieces, the large ones first, out of which it cuts small ones.
PIECE_BYTES = (*(1 << power for power in range(16, 10, -1)), *range(1032, 23, -16))
# At most so many of a size, and bytes of all sizes.
MOST_FILLERS = 256
MOST_BYTES = 4 << 20
# What is called, looked at, or named, again and again. Types are known by their ids: a metaclass may have its own ideas of equality.
LASTING = {
    id(kind) for kind in (
        types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
        types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType, property, classmethod, staticmethod,
    )
}
CONSTANTS = {id(kind) for kind in (str, bytes, int, float)}
PARTS_OF_WHOLES = CONSTANTS | {id(dict), id(tuple)}
COLLECTIONS = {id(kind) for kind in (list, dict, set, tuple)}
# What is larger than this is data; and it takes no longer than this, in seconds.
MOST_PARTS = 100_000
MOST_TIME = 1


def lay_out():
    """What it gives has to be kept."""
    for step in (make_immortal, code_to_huge_pages, fill_heap):
        try:
            step()
        except Exception:
            pass  # it is slower, and that is all
    return fill_pools()


def make_immortal():
    """Has the interpreter no longer count who refers to functions, code, types, modules and constants that are here now. The counts
    are next to them: each child that only calls a function would copy its page. CPython has counts that stay as they are since 3.12,
    and None has one. Their end is given up with that, and the end of what they alone hold: none comes to a child before its own."""
    if hasattr(sys, "gettotalrefcount"):
        return  # a debug build asserts that nobody does this
    count = ctypes.c_uint32.from_address
    forever = count(id(None)).value
    many = [None] * 1000
    if not forever == count(id(None)).value == sys.getrefcount(None):
        return  # it counts them all, or elsewhere
    del many

    def keep(it):
        count(id(it)).value = forever

    def keep_code(code):
        keep(code)
        for constant in code.co_consts:
            if type(constant) is types.CodeType:
                keep_code(constant)
            elif id(type(constant)) in CONSTANTS:
                keep(constant)

    until = time.monotonic() + MOST_TIME
    # What is frozen is not listed.
    gc.unfreeze()
    for it in gc.get_objects():
        if time.monotonic() > until:
            break
        kind = type(it)
        # What types and modules consist of goes with them.
        whole = issubclass(kind, (type, types.ModuleType))
        if whole or id(kind) in LASTING:
            keep(it)
        if id(kind) in COLLECTIONS and len(it) > MOST_PARTS:
            continue
        kept = PARTS_OF_WHOLES if whole else CONSTANTS
        for part in gc.get_referents(it):
            if id(type(part)) in kept:
                keep(part)
            elif type(part) is types.CodeType:
                keep_code(part)
    gc.freeze()


def code_to_huge_pages():
    """Puts the interpreter's own code, and its constants, on huge pages, which come along with a fork as one entry each."""
    begin, end = own_code()
    begin = up_to_huge(begin)
    size = end // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES - begin
    if not 0 < size <= MOST_CODE_BYTES:
        return
    address, length, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype, libc.mmap.argtypes = address, (address, length, number, number, number, ctypes.c_long)
    libc.madvise.argtypes = libc.mprotect.argtypes = (address, length, number)
    libc.mremap.restype, libc.mremap.argtypes = address, (address, length, length, number, address)
    libc.munmap.argtypes = (address, length)
    before = on_huge_pages()
    # One more, since it may begin anywhere; what is not needed goes again.
    room = libc.mmap(None, size + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
    if room in (None, MAP_FAILED):
        return
    copy = up_to_huge(room)
    if copy > room:
        libc.munmap(room, copy - room)
    libc.munmap(copy + size, room + HUGE_PAGE_BYTES - copy)
    libc.madvise(copy, size, MADV_HUGEPAGE)
    ctypes.memmove(copy, begin, size)
    moved = False
    try:
        if on_huge_pages() >= before + size and libc.mprotect(copy, size, PROT_READ | PROT_EXEC) == 0:
            # It takes the place of what it is a copy of, byte for byte, at once.
            moved = libc.mremap(copy, size, size, MREMAP_MAYMOVE_FIXED, begin) == begin
    finally:
        # Where it was is somebody else's by now, if it was moved.
        if not moved:
            libc.munmap(copy, size)


def up_to_huge(address):
    return -(-address // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES


def own_code():
    """From where to where the file that has the interpreter's code is mapped, and never written to."""
    here = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
    begin = end = 0
    mapped = None
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, _offset, *file = line.split()
            first, last = (int(part, 16) for part in span.split("-"))
            file = file if rights.startswith("r-") else None
            if file is None or (first, file) != (end, mapped):
                if begin <= here < end:
                    break
                begin, mapped = first, file
            end = last
    return (begin, end) if begin <= here < end and mapped else (0, 0)


def on_huge_pages():
    """How many bytes of this process's memory are."""
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages:"))


def fill_heap():
    """Takes the free pieces that lie scattered through the C library's heap: what a child allocates then lies side by side at its
    end, on fewer pages."""
    address, length = ctypes.c_void_p, ctypes.c_size_t
    libc.malloc.restype, libc.malloc.argtypes = address, (length,)
    libc.sbrk.restype, libc.sbrk.argtypes = address, (ctypes.c_ssize_t,)
    libc.free.argtypes = (address,)
    end = libc.malloc(PIECE_BYTES[0])
    if not 0 <= (libc.sbrk(0) or 0) - (end or 0) < MOST_BYTES:
        return  # it grows elsewhere
    taken = 0
    for size in PIECE_BYTES:
        while taken < MOST_BYTES:
            piece = libc.malloc(size)
            taken += size
            if not piece or piece > end:
                libc.free(piece)
                break


def fill_pools():
    """The same for the allocator's pools of small blocks. What keeps the blocks."""
    fillers = []
    for size in BLOCK_BYTES:
        for _ in range(MOST_FILLERS):
            fillers.append(bytes(size - sys.getsizeof(b"")))
            if id(fillers[-1]) % POOL_BYTES == POOL_FIRST:
                break  # the first of a new pool: all others are full
    return fillers
