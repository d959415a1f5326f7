//! Which system calls a jailed process may make: a filter (seccomp) for what Landlock does not see.
//!
//! Of the calls up to the newest that was reviewed, what is not named here is allowed; newer ones do not exist. A refusal is an error number that programs know how to take: `ENOSYS` where they
//! have another way (io_uring, clone3), `EOPNOTSUPP` as of a file system without extended attributes, `EACCES` for the
//! network, else `EPERM`. A foreign architecture's calls kill the process.

use std::io;

use seccompiler::{BpfProgram, apply_filter};

use super::numbers as n;
use super::program::{Rules, Test};
use crate::manifest::Network;

const EPERM: u32 = 1;
const EACCES: u32 = 13;
const ENOSYS: u32 = 38;
const EOPNOTSUPP: u32 = 95;
/// As if it had been done.
const DONE: u32 = 0;

/// The first number that was not reviewed when these rules were written: a call of a newer kernel, or of the x32
/// architecture, does not exist. From 424 on the numbers are the same on all architectures.
const FOREIGN: u32 = 470;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
/// The kind of socket, without its flags.
const SOCK_TYPE_MASK: u32 = 0xf;
const SOL_SOCKET: u32 = 1;
const SO_SNDBUF: u32 = 7;
const IPPROTO_TCP: u32 = 6;
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
/// Without the bit that it shares with `O_DIRECTORY`, which differs by architecture.
const O_TMPFILE: u32 = 0o20_000_000;
const PR_SET_CHILD_SUBREAPER: u32 = 36;
const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IFMT: u32 = 0o170_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;
/// Namespaces that clone(2) can make: mount, cgroup, host name, IPC, user, process ids, network.
const CLONE_NEW: [u32; 7] = [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// What a process may do to the files it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// It has a user of its own, which owns nothing outside.
    Itself,
    /// The same, but its user may pass file permissions: only Landlock bounds it.
    Overriding,
    /// It is the worker's user, which may own anything.
    Worker,
}

/// What a process makes for its children.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    Nothing,
    Namespaces,
}

/// The filter, compiled.
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// Compiles the filter for such a process. `counted`: by the kernel, in all its memory; else by looking.
    pub(super) fn compile(network: &Network, owner: Owner, counted: bool) -> io::Result<Self> {
        Self::of(network, owner, Makes::Nothing, counted)
    }

    /// The filter of a fork server, which makes mounts and namespaces for its children. Their memory is measured
    /// by looking.
    pub(super) fn of_fork_server(network: &Network) -> io::Result<Self> {
        Self::of(network, Owner::Itself, Makes::Namespaces, false)
    }

    /// What each child of a fork server adds to the filter it was born with, once it has its namespaces.
    pub(super) fn of_fork() -> io::Result<Self> {
        let mut rules = Rules::default();
        making(&mut rules);
        rules.compile((FOREIGN, ENOSYS)).map(Self).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The program, as the kernel reads it (`struct sock_filter[]`).
    pub(super) fn hexadecimal(&self) -> String {
        let bytes = self.0.iter().flat_map(|it| {
            let [low, high] = it.code.to_ne_bytes();
            [low, high, it.jt, it.jf].into_iter().chain(it.k.to_ne_bytes())
        });
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    fn of(network: &Network, owner: Owner, makes: Makes, counted: bool) -> io::Result<Self> {
        let mut rules = Rules::default();
        rules.always(ENOSYS, &[n::IO_URING_SETUP, n::IO_URING_ENTER, n::IO_URING_REGISTER, n::CLONE3]);
        files(&mut rules, owner);
        system(&mut rules);
        if makes == Makes::Nothing {
            making(&mut rules);
        }
        if !counted {
            unseen(&mut rules);
        }
        rules.always(ENOSYS, &[n::MEMFD_SECRET]);
        processes(&mut rules);
        sockets(&mut rules, network);
        rules.compile((FOREIGN, ENOSYS)).map(Self).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Puts it in place, for good. Only system calls.
    pub(super) fn enter(&self) -> io::Result<()> {
        apply_filter(&self.0).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            _ => io::Error::from(io::ErrorKind::PermissionDenied),
        })
    }
}

/// What Landlock does not see of files: their attributes, owners, modes and times.
///
/// Where the process could change modes or times of any file of the worker's, the call does nothing: programs that copy
/// files would otherwise fail for the least of reasons.
fn files(rules: &mut Rules, owner: Owner) {
    rules.always(EOPNOTSUPP, &[n::SETXATTR, n::LSETXATTR, n::FSETXATTR, n::SETXATTRAT, n::FILE_SETATTR]);
    rules.always(EOPNOTSUPP, &[n::REMOVEXATTR, n::LREMOVEXATTR, n::FREMOVEXATTR, n::REMOVEXATTRAT]);
    if owner == Owner::Overriding {
        rules.always(EOPNOTSUPP, &[n::GETXATTR, n::LGETXATTR, n::FGETXATTR, n::GETXATTRAT]);
        // It could watch any folder, and learn what comes and goes there.
        rules.always(EACCES, &[n::INOTIFY_ADD_WATCH]);
    }
    if owner == Owner::Worker {
        rules.always(DONE, &[n::CHMOD, n::FCHMOD, n::FCHMODAT, n::FCHMODAT2]);
        rules.always(EPERM, &[n::CHOWN, n::FCHOWN, n::LCHOWN, n::FCHOWNAT]);
        // A file's owner may do these through a descriptor that only reads.
        for request in [FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY] {
            rules.when(EPERM, n::IOCTL, &[Test::is(1, request)]);
        }
    }
    if owner != Owner::Itself {
        rules.always(DONE, &[n::UTIME, n::UTIMES, n::FUTIMESAT, n::UTIMENSAT]);
    }
    rules.always(EPERM, &[n::OPEN_BY_HANDLE_AT, n::NAME_TO_HANDLE_AT, n::FANOTIFY_INIT, n::FANOTIFY_MARK]);
    // A lease on a script would hold up whoever opens it next, and a notification tells of others' work.
    for command in [F_SETLEASE, F_NOTIFY] {
        rules.when(EPERM, n::FCNTL, &[Test::is(1, command)]);
    }
    privileged_programs(rules);
    for (call, mode) in [(n::MKNOD, 1), (n::MKNODAT, 2)] {
        for kind in [S_IFCHR, S_IFBLK] {
            rules.when(EPERM, call, &[Test::Bits(mode, S_IFMT, kind)]);
        }
    }
}

/// A program left in the allowed root would run as its owner for whoever starts it outside.
fn privileged_programs(rules: &mut Rules) {
    let changed = [(n::CHMOD, 1), (n::FCHMOD, 1), (n::FCHMODAT, 2), (n::FCHMODAT2, 2)];
    let made = [(n::CREAT, 1), (n::MKNOD, 1), (n::MKNODAT, 2)];
    for bit in [S_ISUID, S_ISGID] {
        for (call, mode) in changed.into_iter().chain(made) {
            rules.when(EPERM, call, &[Test::Bits(mode, bit, bit)]);
        }
        // The mode of a file that is only opened is whatever the register holds.
        for (call, flags) in [(n::OPEN, 1), (n::OPENAT, 2)] {
            for makes in [O_CREAT, O_TMPFILE] {
                rules.when(EPERM, call, &[Test::Bits(flags, makes, makes), Test::Bits(flags + 1, bit, bit)]);
            }
        }
    }
    // Its flags and mode are in memory, where a filter does not look. Programs fall back to openat.
    rules.always(ENOSYS, &[n::OPENAT2]);
}

/// The system itself, and ways to a larger part of it.
fn system(rules: &mut Rules) {
    rules.always(EPERM, &[n::UMOUNT2, n::MOVE_MOUNT, n::OPEN_TREE, n::OPEN_TREE_ATTR, n::MOUNT_SETATTR]);
    rules.always(EPERM, &[n::FSOPEN, n::FSCONFIG, n::FSMOUNT, n::FSPICK, n::PIVOT_ROOT, n::CHROOT]);
    for namespace in CLONE_NEW {
        rules.when(EPERM, n::CLONE, &[Test::Bits(0, namespace, namespace)]);
    }
    rules.always(EPERM, &[n::BPF, n::USERFAULTFD, n::PERF_EVENT_OPEN, n::KEYCTL, n::ADD_KEY, n::REQUEST_KEY]);
    rules.always(EPERM, &[n::KEXEC_LOAD, n::KEXEC_FILE_LOAD, n::INIT_MODULE, n::FINIT_MODULE, n::DELETE_MODULE]);
    rules.always(EPERM, &[n::SYSLOG, n::IOPL, n::IOPERM, n::MODIFY_LDT, n::VHANGUP, n::ACCT, n::SWAPON, n::SWAPOFF]);
    rules.always(EPERM, &[n::REBOOT, n::SETHOSTNAME, n::SETDOMAINNAME, n::QUOTACTL, n::QUOTACTL_FD]);
    rules.always(EPERM, &[n::SETTIMEOFDAY, n::CLOCK_SETTIME, n::ADJTIMEX, n::CLOCK_ADJTIME]);
    // Memory and queues that would outlive the call, and that no limit counts.
    rules.always(EPERM, &[n::SHMGET, n::SEMGET, n::MSGGET, n::MQ_OPEN]);
    rules.when(EPERM, n::PERSONALITY, &[Test::Not(0, 0), Test::Not(0, u32::MAX)]);
    for request in [TIOCSTI, TIOCLINUX] {
        rules.when(EPERM, n::IOCTL, &[Test::is(1, request)]);
    }
}

/// Memory that looking at processes does not show: files without a name, and mappings that several processes share, which
/// stay as long as one of them maps a page. Buffers of sockets stay as large as the system makes them.
fn unseen(rules: &mut Rules) {
    rules.always(ENOSYS, &[n::MEMFD_CREATE]);
    rules.when(EPERM, n::MMAP, &[Test::Bits(3, MAP_SHARED_ANONYMOUS, MAP_SHARED_ANONYMOUS)]);
    // A size is a hint: programs need not know that it was not taken.
    rules.when(DONE, n::SETSOCKOPT, &[Test::is(1, SOL_SOCKET), Test::is(2, SO_SNDBUF)]);
}

/// Mounts and namespaces, which only a fork server makes.
fn making(rules: &mut Rules) {
    rules.always(EPERM, &[n::MOUNT, n::UNSHARE, n::SETNS]);
}

/// Other processes: what they hold, and their limits and priorities. The worker may have the same user.
fn processes(rules: &mut Rules) {
    rules.always(EPERM, &[n::PTRACE, n::PROCESS_VM_READV, n::PROCESS_VM_WRITEV, n::PIDFD_GETFD, n::KCMP]);
    rules.always(EPERM, &[n::PROCESS_MADVISE, n::PROCESS_MRELEASE, n::MOVE_PAGES, n::MIGRATE_PAGES]);
    // Orphans of a call would leave its tree, and be another's.
    rules.when(EPERM, n::PRCTL, &[Test::is(0, PR_SET_CHILD_SUBREAPER), Test::is(1, 0)]);
    for call in [n::PRLIMIT64, n::SCHED_SETAFFINITY, n::SCHED_SETATTR, n::SCHED_SETPARAM, n::SCHED_SETSCHEDULER] {
        rules.when(EPERM, call, &[Test::Not(0, 0)]);
    }
    for (call, process) in [(n::SETPRIORITY, 0), (n::IOPRIO_SET, 1)] {
        rules.when(EPERM, call, &[Test::Not(0, process)]);
        rules.when(EPERM, call, &[Test::Not(1, 0)]);
    }
}

fn sockets(rules: &mut Rules, network: &Network) {
    // A pair is a pipe with two ways. One of datagrams, raw ones are too, could be pointed at any socket of the system.
    rules.when(EACCES, n::SOCKETPAIR, &[Test::Not(0, AF_UNIX)]);
    kinds_but(rules, n::SOCKETPAIR, &[SOCK_STREAM, SOCK_SEQPACKET]);
    let kinds: &[u32] = match network {
        Network::None => return rules.always(EACCES, &[n::SOCKET, n::LISTEN]),
        Network::Connect(_) => &[SOCK_STREAM],
        Network::Full => &[SOCK_STREAM, SOCK_DGRAM],
    };
    rules.when(EACCES, n::SOCKET, &[Test::Not(0, AF_INET), Test::Not(0, AF_INET6)]);
    kinds_but(rules, n::SOCKET, kinds);
    if *network == Network::Full {
        return;
    }
    // Other protocols (MPTCP, SMC, SCTP) are streams too, and Landlock's rules for TCP are not for them.
    rules.when(EACCES, n::SOCKET, &[Test::Not(2, 0), Test::Not(2, IPPROTO_TCP)]);
    for option in [TCP_FASTOPEN_CONNECT, TCP_ULP] {
        rules.when(EACCES, n::SETSOCKOPT, &[Test::is(1, IPPROTO_TCP), Test::is(2, option)]);
    }
    // Connecting by sending: Landlock is not asked.
    for (call, flags) in [(n::SENDTO, 3), (n::SENDMSG, 2), (n::SENDMMSG, 3)] {
        rules.when(EACCES, call, &[Test::Bits(flags, MSG_FASTOPEN, MSG_FASTOPEN)]);
    }
    // A socket that listens without an address gets one, and Landlock is not asked either.
    rules.always(EACCES, &[n::LISTEN, n::ACCEPT, n::ACCEPT4]);
}

/// Refuses all kinds of socket but these.
fn kinds_but(rules: &mut Rules, call: i64, kinds: &[u32]) {
    for kind in (0..=SOCK_TYPE_MASK).filter(|kind| !kinds.contains(kind)) {
        rules.when(EACCES, call, &[Test::Bits(1, SOCK_TYPE_MASK, kind)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_filter_compiles_within_the_kernels_bound() {
        for network in [Network::None, Network::Connect(vec![443]), Network::Full] {
            for owner in [Owner::Itself, Owner::Overriding, Owner::Worker] {
                let filter = Filter::compile(&network, owner, false).unwrap();
                assert!((100..4096).contains(&filter.0.len()), "{network:?} {owner:?}: {}", filter.0.len());
            }
        }
    }
}
