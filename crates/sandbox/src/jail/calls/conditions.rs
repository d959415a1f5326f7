//! Arguments that are refused in allowed calls. A filter sees registers, but not the memory that they point to.

use libc::{
    AF_INET, AF_INET6, AF_UNIX, CLONE_NEWTIME, CLONE_PARENT, F_NOTIFY, F_SETLEASE, IPPROTO_TCP, IPPROTO_UDP,
    MAP_HUGETLB, MSG_FASTOPEN, O_CREAT, PR_SET_CHILD_SUBREAPER, SO_SNDBUF, SO_ZEROCOPY, SOCK_DGRAM, SOCK_SEQPACKET,
    SOCK_STREAM, SOL_SOCKET, TCP_FASTOPEN_CONNECT, TCP_ULP,
};

use super::profile::Refusal::{self, Done, Eacces, Einval, Enomem, Eopnotsupp, Eperm};
use super::profile::{FileOwner, Makes, Profile};
use crate::jail::program::Test;
use crate::jail::requirement::Network;

/// The bits of a socket's type, without its flags.
const SOCK_TYPE_MASK: i32 = 0xf;
const TIOCSTI: i32 = 0x5412;
const TIOCLINUX: i32 = 0x541c;
const FS_IOC_SETFLAGS: i32 = 0x4008_6602;
const FS_IOC_FSSETXATTR: i32 = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: i32 = 0x4080_6685;
/// `MAP_SHARED` and `MAP_ANONYMOUS`.
const MAP_SHARED_ANONYMOUS: i32 = 0x21;
/// `O_TMPFILE` without the bit of `O_DIRECTORY`, which depends on the architecture.
const O_TMPFILE: i32 = 0o20_000_000;
const RENAME_WHITEOUT: i32 = 4;
const MFD_HUGETLB: i32 = 4;
const TCP_ZEROCOPY_RECEIVE: i32 = 35;
const S_ISUID: i32 = 0o4000;
const S_ISGID: i32 = 0o2000;
const S_IFMT: i32 = 0o170_000;
const S_IFCHR: i32 = 0o020_000;
const S_IFBLK: i32 = 0o060_000;
/// The flags of clone(2) for new namespaces: mount, cgroup, host name, IPC, user, process ids, network.
const CLONE_NEW: [i32; 7] = [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// The flags for the namespaces of a browser's sandbox: user, process ids, network.
const CLONE_NEW_OF_SANDBOX: [i32; 3] = [0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Refuses a call, given by its name, if its arguments match all tests.
type Refuse<'a> = dyn FnMut(Refusal, &str, &[Test]) + 'a;

/// Adds all conditions of this profile. They do not change calls that the profile refuses.
pub(super) fn add(profile: &Profile<'_>, refuse: &mut Refuse<'_>) {
    files(refuse, profile.owner);
    privileged_programs(refuse);
    system(refuse, profile.makes);
    huge_pages(refuse);
    if !profile.counted {
        unseen(refuse);
    }
    processes(refuse);
    match profile.makes {
        Makes::Sandbox => sockets_of_sandbox(refuse),
        Makes::Nothing | Makes::Namespaces => sockets(refuse, profile.network),
    }
}

/// Restricts access to files that Landlock does not see.
fn files(refuse: &mut Refuse<'_>, owner: FileOwner) {
    if owner == FileOwner::Worker {
        // A file's owner may make these requests even through a read-only descriptor.
        for request in [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY] {
            refuse(Eperm, "ioctl", &[Test::is(1, request)]);
        }
    }
    // A lease on a script would delay the next process that opens it. A notification reveals what other processes
    // do.
    for command in [F_SETLEASE, F_NOTIFY] {
        refuse(Eperm, "fcntl", &[Test::is(1, command)]);
    }
    for (call, mode) in [("mknod", 1), ("mknodat", 2)] {
        for kind in [S_IFCHR, S_IFBLK] {
            refuse(Eperm, call, &[Test::Bits(mode, S_IFMT, kind)]);
        }
    }
    // This flag replaces the old name with a device.
    refuse(Eperm, "renameat2", &[Test::Bits(4, RENAME_WHITEOUT, RENAME_WHITEOUT)]);
}

/// Prevents set-user-id programs. One that a skill leaves in the allowed root would run as its owner for any user
/// who starts it outside the jail.
fn privileged_programs(refuse: &mut Refuse<'_>) {
    let changed = [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)];
    let made = [("creat", 1), ("mknod", 1), ("mknodat", 2)];
    for bit in [S_ISUID, S_ISGID] {
        for (call, mode) in changed.into_iter().chain(made) {
            refuse(Eperm, call, &[Test::Bits(mode, bit, bit)]);
        }
        // If the file is only opened, the register of the mode may contain anything.
        for (call, flags) in [("open", 1), ("openat", 2)] {
            for makes in [O_CREAT, O_TMPFILE] {
                refuse(Eperm, call, &[Test::Bits(flags, makes, makes), Test::Bits(flags + 1, bit, bit)]);
            }
        }
    }
}

/// Restricts namespaces, the execution domain, and input to terminals. A fork server creates namespaces by other
/// calls than clone(2), and a browser may create only those of its sandbox.
fn system(refuse: &mut Refuse<'_>, makes: Makes) {
    let made: &[i32] = if makes == Makes::Sandbox { &CLONE_NEW_OF_SANDBOX } else { &[] };
    for namespace in CLONE_NEW.into_iter().filter(|it| !made.contains(it)) {
        refuse(Eperm, "clone", &[Test::Bits(0, namespace, namespace)]);
    }
    if makes == Makes::Sandbox {
        // Only unshare(2) makes a time namespace. In clone(2), this bit is part of the exit signal.
        let all = CLONE_NEW.into_iter().chain([CLONE_NEWTIME]);
        for namespace in all.filter(|it| !made.contains(it)) {
            refuse(Eperm, "unshare", &[Test::Bits(0, namespace, namespace)]);
        }
    }
    refuse(Eperm, "personality", &[Test::Not(0, 0), Test::Not(0, -1)]);
    for request in [TIOCSTI, TIOCLINUX] {
        refuse(Eperm, "ioctl", &[Test::is(1, request)]);
    }
}

/// Refuses mappings and files of huge pages, which the machine reserves, because neither a control group nor a
/// meter counts them. Chromium tries all flags of memfd_create(2) at once, and expects no other error.
fn huge_pages(refuse: &mut Refuse<'_>) {
    refuse(Enomem, "mmap", &[Test::Bits(3, MAP_HUGETLB, MAP_HUGETLB)]);
    refuse(Einval, "memfd_create", &[Test::Bits(1, MFD_HUGETLB, MFD_HUGETLB)]);
}

/// Refuses memory that a meter does not see, which is mappings that several processes share. They exist as long as
/// one process maps a page. Socket buffers keep the system's default size.
fn unseen(refuse: &mut Refuse<'_>) {
    refuse(Eperm, "mmap", &[Test::Bits(3, MAP_SHARED_ANONYMOUS, MAP_SHARED_ANONYMOUS)]);
    // The size is a hint, so programs need not know that it was ignored.
    refuse(Done, "setsockopt", &[Test::is(1, SOL_SOCKET), Test::is(2, SO_SNDBUF)]);
    // These sockets send and receive pages instead of bytes, like vmsplice(2).
    refuse(Eopnotsupp, "setsockopt", &[Test::is(1, SOL_SOCKET), Test::is(2, SO_ZEROCOPY)]);
    refuse(Eopnotsupp, "getsockopt", &[Test::is(1, IPPROTO_TCP), Test::is(2, TCP_ZEROCOPY_RECEIVE)]);
}

/// Protects other processes' limits and priorities. The worker may run as the same user.
fn processes(refuse: &mut Refuse<'_>) {
    // Otherwise a call's orphans, and children created with CLONE_PARENT, would leave its tree and join another.
    refuse(Eperm, "prctl", &[Test::is(0, PR_SET_CHILD_SUBREAPER), Test::is(1, 0)]);
    refuse(Eperm, "clone", &[Test::Bits(0, CLONE_PARENT, CLONE_PARENT)]);
    for call in ["prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"] {
        refuse(Eperm, call, &[Test::Not(0, 0)]);
    }
    for (call, process) in [("setpriority", 0), ("ioprio_set", 1)] {
        refuse(Eperm, call, &[Test::Not(0, process)]);
        refuse(Eperm, call, &[Test::Not(1, 0)]);
    }
}

fn sockets(refuse: &mut Refuse<'_>, network: &Network) {
    // A socket pair is a two-way pipe. But a datagram socket of a pair, and therefore also a raw one, could be
    // connected to any of the system's sockets.
    refuse(Eacces, "socketpair", &[Test::Not(0, AF_UNIX)]);
    kinds_but(refuse, "socketpair", &[SOCK_STREAM, SOCK_SEQPACKET]);
    let kinds: &[i32] = match network {
        Network::None => return,
        Network::Connect(_) => &[SOCK_STREAM],
        Network::Full => &[SOCK_STREAM, SOCK_DGRAM],
    };
    refuse(Eacces, "socket", &[Test::Not(0, AF_INET), Test::Not(0, AF_INET6)]);
    kinds_but(refuse, "socket", kinds);
    if *network == Network::Full {
        return;
    }
    // Other protocols (MPTCP, SMC, SCTP) also provide streams, but Landlock's rules for TCP do not cover them.
    refuse(Eacces, "socket", &[Test::Not(2, 0), Test::Not(2, IPPROTO_TCP)]);
    for option in [TCP_FASTOPEN_CONNECT, TCP_ULP] {
        refuse(Eacces, "setsockopt", &[Test::is(1, IPPROTO_TCP), Test::is(2, option)]);
    }
    // With this flag, sending connects the socket, which Landlock does not check.
    for (call, flags) in [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)] {
        refuse(Eacces, call, &[Test::Bits(flags, MSG_FASTOPEN, MSG_FASTOPEN)]);
    }
}

/// Restricts a browser's sockets. A browser talks to its own processes, and to the relay if its network contains no
/// other processes. Raw sockets and other families expose parts of the kernel that no page should reach.
fn sockets_of_sandbox(refuse: &mut Refuse<'_>) {
    refuse(Eacces, "socketpair", &[Test::Not(0, AF_UNIX)]);
    refuse(Eacces, "socket", &[Test::Not(0, AF_UNIX), Test::Not(0, AF_INET), Test::Not(0, AF_INET6)]);
    for call in ["socket", "socketpair"] {
        kinds_but(refuse, call, &[SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET]);
    }
    // For the network, allow only TCP and UDP, because each other protocol (SCTP, MPTCP, UDP-Lite) exposes another
    // part of the kernel.
    let of_network = Test::Not(0, AF_UNIX);
    let kind = |it| Test::Bits(1, SOCK_TYPE_MASK, it);
    refuse(Eacces, "socket", &[of_network, kind(SOCK_SEQPACKET)]);
    for (it, protocol) in [(SOCK_STREAM, IPPROTO_TCP), (SOCK_DGRAM, IPPROTO_UDP)] {
        refuse(Eacces, "socket", &[of_network, kind(it), Test::Not(2, 0), Test::Not(2, protocol)]);
    }
    refuse(Eacces, "setsockopt", &[Test::is(1, IPPROTO_TCP), Test::is(2, TCP_ULP)]);
}

/// Refuses all socket types except these.
fn kinds_but(refuse: &mut Refuse<'_>, call: &str, kinds: &[i32]) {
    for kind in (0..=SOCK_TYPE_MASK).filter(|kind| !kinds.contains(kind)) {
        refuse(Eacces, call, &[Test::Bits(1, SOCK_TYPE_MASK, kind)]);
    }
}
