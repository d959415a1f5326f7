//! Arguments that are refused in allowed calls. A filter sees registers, but not the memory that they point to.

use super::profile::errno::{DONE, EACCES, EINVAL, ENOMEM, EOPNOTSUPP, EPERM};
use super::profile::{FileOwner, Makes, Profile};
use crate::jail::numbers as n;
use crate::jail::program::{Rules, Test};
use crate::jail::requirement::Network;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
/// The bits of a socket's type, without its flags.
const SOCK_TYPE_MASK: u32 = 0xf;
const SOL_SOCKET: u32 = 1;
const SO_SNDBUF: u32 = 7;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const MSG_FASTOPEN: u32 = 0x2000_0000;
const TCP_FASTOPEN_CONNECT: u32 = 30;
const TCP_ULP: u32 = 31;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: u32 = 0x4080_6685;
/// `MAP_SHARED` and `MAP_ANONYMOUS`.
const MAP_SHARED_ANONYMOUS: u32 = 0x21;
const F_SETLEASE: u32 = 1024;
const F_NOTIFY: u32 = 1026;
const O_CREAT: u32 = 0o100;
/// `O_TMPFILE` without the bit of `O_DIRECTORY`, which depends on the architecture.
const O_TMPFILE: u32 = 0o20_000_000;
const PR_SET_CHILD_SUBREAPER: u32 = 36;
const CLONE_PARENT: u32 = 0x8000;
const RENAME_WHITEOUT: u32 = 4;
const MAP_HUGETLB: u32 = 0x4_0000;
const MFD_HUGETLB: u32 = 4;
const SO_ZEROCOPY: u32 = 60;
const TCP_ZEROCOPY_RECEIVE: u32 = 35;
const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IFMT: u32 = 0o170_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;
/// The flags of clone(2) for new namespaces: mount, cgroup, host name, IPC, user, process ids, network.
const CLONE_NEW: [u32; 7] = [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// The flag for a new time namespace, which only unshare(2) accepts. In clone(2), this bit is part of the exit
/// signal.
const CLONE_NEWTIME: u32 = 0x80;

/// The flags for the namespaces of a browser's sandbox: user, process ids, network.
const CLONE_NEW_OF_SANDBOX: [u32; 3] = [0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Adds all conditions of this profile. They do not change calls that the profile refuses.
pub(super) fn add(rules: &mut Rules, profile: &Profile<'_>) {
    files(rules, profile.owner);
    privileged_programs(rules);
    system(rules, profile.makes);
    huge_pages(rules);
    if !profile.counted {
        unseen(rules);
    }
    processes(rules);
    match profile.makes {
        Makes::Sandbox => sockets_of_sandbox(rules),
        Makes::Nothing | Makes::Namespaces => sockets(rules, profile.network),
    }
}

/// Restricts access to files that Landlock does not see.
fn files(rules: &mut Rules, owner: FileOwner) {
    if owner == FileOwner::Worker {
        // A file's owner may make these requests even through a read-only descriptor.
        for request in [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY] {
            rules.refuse_if(EPERM, n::IOCTL, &[Test::is(1, request)]);
        }
    }
    // A lease on a script would delay the next process that opens it. A notification reveals what other processes
    // do.
    for command in [F_SETLEASE, F_NOTIFY] {
        rules.refuse_if(EPERM, n::FCNTL, &[Test::is(1, command)]);
    }
    for (call, mode) in [(n::MKNOD, 1), (n::MKNODAT, 2)] {
        for kind in [S_IFCHR, S_IFBLK] {
            rules.refuse_if(EPERM, call, &[Test::Bits(mode, S_IFMT, kind)]);
        }
    }
    // This flag replaces the old name with a device.
    rules.refuse_if(EPERM, n::RENAMEAT2, &[Test::Bits(4, RENAME_WHITEOUT, RENAME_WHITEOUT)]);
}

/// Prevents set-user-id programs. One that a skill leaves in the allowed root would run as its owner for any user
/// who starts it outside the jail.
fn privileged_programs(rules: &mut Rules) {
    let changed = [(n::CHMOD, 1), (n::FCHMOD, 1), (n::FCHMODAT, 2), (n::FCHMODAT2, 2)];
    let made = [(n::CREAT, 1), (n::MKNOD, 1), (n::MKNODAT, 2)];
    for bit in [S_ISUID, S_ISGID] {
        for (call, mode) in changed.into_iter().chain(made) {
            rules.refuse_if(EPERM, call, &[Test::Bits(mode, bit, bit)]);
        }
        // If the file is only opened, the register of the mode may contain anything.
        for (call, flags) in [(n::OPEN, 1), (n::OPENAT, 2)] {
            for makes in [O_CREAT, O_TMPFILE] {
                rules.refuse_if(EPERM, call, &[Test::Bits(flags, makes, makes), Test::Bits(flags + 1, bit, bit)]);
            }
        }
    }
}

/// Restricts namespaces, the execution domain, and input to terminals. A fork server creates namespaces by other
/// calls than clone(2), and a browser may create only those of its sandbox.
fn system(rules: &mut Rules, makes: Makes) {
    let made: &[u32] = if makes == Makes::Sandbox { &CLONE_NEW_OF_SANDBOX } else { &[] };
    for namespace in CLONE_NEW.into_iter().filter(|it| !made.contains(it)) {
        rules.refuse_if(EPERM, n::CLONE, &[Test::Bits(0, namespace, namespace)]);
    }
    if makes == Makes::Sandbox {
        let all = CLONE_NEW.into_iter().chain([CLONE_NEWTIME]);
        for namespace in all.filter(|it| !made.contains(it)) {
            rules.refuse_if(EPERM, n::UNSHARE, &[Test::Bits(0, namespace, namespace)]);
        }
    }
    rules.refuse_if(EPERM, n::PERSONALITY, &[Test::Not(0, 0), Test::Not(0, u32::MAX)]);
    for request in [TIOCSTI, TIOCLINUX] {
        rules.refuse_if(EPERM, n::IOCTL, &[Test::is(1, request)]);
    }
}

/// Refuses mappings and files of huge pages, which the machine reserves, because neither a control group nor a
/// meter counts them. Chromium tries all flags of memfd_create(2) at once, and expects no other error.
fn huge_pages(rules: &mut Rules) {
    rules.refuse_if(ENOMEM, n::MMAP, &[Test::Bits(3, MAP_HUGETLB, MAP_HUGETLB)]);
    rules.refuse_if(EINVAL, n::MEMFD_CREATE, &[Test::Bits(1, MFD_HUGETLB, MFD_HUGETLB)]);
}

/// Refuses memory that a meter does not see, which is mappings that several processes share. They exist as long as
/// one process maps a page. Socket buffers keep the system's default size.
fn unseen(rules: &mut Rules) {
    rules.refuse_if(EPERM, n::MMAP, &[Test::Bits(3, MAP_SHARED_ANONYMOUS, MAP_SHARED_ANONYMOUS)]);
    // The size is a hint, so programs need not know that it was ignored.
    rules.refuse_if(DONE, n::SETSOCKOPT, &[Test::is(1, SOL_SOCKET), Test::is(2, SO_SNDBUF)]);
    // These sockets send and receive pages instead of bytes, like vmsplice(2).
    rules.refuse_if(EOPNOTSUPP, n::SETSOCKOPT, &[Test::is(1, SOL_SOCKET), Test::is(2, SO_ZEROCOPY)]);
    rules.refuse_if(EOPNOTSUPP, n::GETSOCKOPT, &[Test::is(1, IPPROTO_TCP), Test::is(2, TCP_ZEROCOPY_RECEIVE)]);
}

/// Protects other processes' limits and priorities. The worker may run as the same user.
fn processes(rules: &mut Rules) {
    // Otherwise a call's orphans, and children created with CLONE_PARENT, would leave its tree and join another.
    rules.refuse_if(EPERM, n::PRCTL, &[Test::is(0, PR_SET_CHILD_SUBREAPER), Test::is(1, 0)]);
    rules.refuse_if(EPERM, n::CLONE, &[Test::Bits(0, CLONE_PARENT, CLONE_PARENT)]);
    for call in [n::PRLIMIT64, n::SCHED_SETAFFINITY, n::SCHED_SETATTR, n::SCHED_SETPARAM, n::SCHED_SETSCHEDULER] {
        rules.refuse_if(EPERM, call, &[Test::Not(0, 0)]);
    }
    for (call, process) in [(n::SETPRIORITY, 0), (n::IOPRIO_SET, 1)] {
        rules.refuse_if(EPERM, call, &[Test::Not(0, process)]);
        rules.refuse_if(EPERM, call, &[Test::Not(1, 0)]);
    }
}

fn sockets(rules: &mut Rules, network: &Network) {
    // A socket pair is a two-way pipe. But a datagram socket of a pair, and therefore also a raw one, could be
    // connected to any of the system's sockets.
    rules.refuse_if(EACCES, n::SOCKETPAIR, &[Test::Not(0, AF_UNIX)]);
    kinds_but(rules, n::SOCKETPAIR, &[SOCK_STREAM, SOCK_SEQPACKET]);
    let kinds: &[u32] = match network {
        Network::None => return,
        Network::Connect(_) => &[SOCK_STREAM],
        Network::Full => &[SOCK_STREAM, SOCK_DGRAM],
    };
    rules.refuse_if(EACCES, n::SOCKET, &[Test::Not(0, AF_INET), Test::Not(0, AF_INET6)]);
    kinds_but(rules, n::SOCKET, kinds);
    if *network == Network::Full {
        return;
    }
    // Other protocols (MPTCP, SMC, SCTP) also provide streams, but Landlock's rules for TCP do not cover them.
    rules.refuse_if(EACCES, n::SOCKET, &[Test::Not(2, 0), Test::Not(2, IPPROTO_TCP)]);
    for option in [TCP_FASTOPEN_CONNECT, TCP_ULP] {
        rules.refuse_if(EACCES, n::SETSOCKOPT, &[Test::is(1, IPPROTO_TCP), Test::is(2, option)]);
    }
    // With this flag, sending connects the socket, which Landlock does not check.
    for (call, flags) in [(n::SENDTO, 3), (n::SENDMSG, 2), (n::SENDMMSG, 3)] {
        rules.refuse_if(EACCES, call, &[Test::Bits(flags, MSG_FASTOPEN, MSG_FASTOPEN)]);
    }
}

/// Restricts a browser's sockets. A browser talks to its own processes, and to the relay if its network contains no
/// other processes. Raw sockets and other families expose parts of the kernel that no page should reach.
fn sockets_of_sandbox(rules: &mut Rules) {
    rules.refuse_if(EACCES, n::SOCKETPAIR, &[Test::Not(0, AF_UNIX)]);
    rules.refuse_if(EACCES, n::SOCKET, &[Test::Not(0, AF_UNIX), Test::Not(0, AF_INET), Test::Not(0, AF_INET6)]);
    for call in [n::SOCKET, n::SOCKETPAIR] {
        kinds_but(rules, call, &[SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET]);
    }
    // For the network, allow only TCP and UDP, because each other protocol (SCTP, MPTCP, UDP-Lite) exposes another
    // part of the kernel.
    let of_network = Test::Not(0, AF_UNIX);
    let kind = |it| Test::Bits(1, SOCK_TYPE_MASK, it);
    rules.refuse_if(EACCES, n::SOCKET, &[of_network, kind(SOCK_SEQPACKET)]);
    for (it, protocol) in [(SOCK_STREAM, IPPROTO_TCP), (SOCK_DGRAM, IPPROTO_UDP)] {
        rules.refuse_if(EACCES, n::SOCKET, &[of_network, kind(it), Test::Not(2, 0), Test::Not(2, protocol)]);
    }
    rules.refuse_if(EACCES, n::SETSOCKOPT, &[Test::is(1, IPPROTO_TCP), Test::is(2, TCP_ULP)]);
}

/// Refuses all socket types except these.
fn kinds_but(rules: &mut Rules, call: i64, kinds: &[u32]) {
    for kind in (0..=SOCK_TYPE_MASK).filter(|kind| !kinds.contains(kind)) {
        rules.refuse_if(EACCES, call, &[Test::Bits(1, SOCK_TYPE_MASK, kind)]);
    }
}
