//! Which system calls a jailed process may make: filters (seccomp) for what Landlock does not see.
//!
//! What is not named here is allowed. A refusal is an error number that programs know how to take: `ENOSYS` where they
//! have another way (io_uring, clone3), `EOPNOTSUPP` as of a file system without extended attributes, `EACCES` for the
//! network, else `EPERM`. A foreign architecture's calls kill the process.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use super::numbers as n;
use crate::manifest::Network;

const EPERM: u32 = 1;
const EACCES: u32 = 13;
const ENOSYS: u32 = 38;
const EOPNOTSUPP: u32 = 95;
/// As if it had been done.
const DONE: u32 = 0;

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
/// The kind of socket, without its flags.
const SOCK_TYPE_MASK: u64 = 0xf;
const IPPROTO_TCP: u64 = 6;
const MSG_FASTOPEN: u64 = 0x2000_0000;
const TCP_FASTOPEN_CONNECT: u64 = 30;
const TCP_ULP: u64 = 31;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const S_IFMT: u64 = 0o170_000;
const S_IFCHR: u64 = 0o020_000;
const S_IFBLK: u64 = 0o060_000;
/// Namespaces that clone(2) can make: mount, cgroup, host name, IPC, user, process ids, network.
const CLONE_NEW: [u64; 7] = [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

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

/// Filters, compiled, in the order they are put in place.
pub(super) struct Filters(Vec<BpfProgram>);

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A rule: all of these hold. None at all: always.
type When<'a> = &'a [(u8, SeccompCmpArgLen, SeccompCmpOp, u64)];

impl Filters {
    /// Compiles the filters for such a process.
    pub(super) fn compile(network: &Network, owner: Owner) -> io::Result<Self> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
        let mut all = vec![x32_guard()];
        for (errno, rules) in [
            (ENOSYS, absent()?),
            (EOPNOTSUPP, attributes(owner)?),
            (DONE, metadata(owner)?),
            (EPERM, forbidden(owner)?),
            (EACCES, sockets(network)?),
        ] {
            if !rules.is_empty() {
                let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch)
                    .map_err(io::Error::other)?;
                all.push(BpfProgram::try_from(filter).map_err(io::Error::other)?);
            }
        }
        Ok(Self(all))
    }

    /// Puts them in place, for good. Only system calls.
    pub(super) fn enter(&self) -> io::Result<()> {
        for filter in &self.0 {
            apply_filter(filter).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
                _ => io::Error::from(io::ErrorKind::PermissionDenied),
            })?;
        }
        Ok(())
    }
}

/// On x86_64 the calls of the x32 architecture have numbers of their own, which the other filters do not know.
fn x32_guard() -> BpfProgram {
    let first = if cfg!(target_arch = "x86_64") { 512 } else { u32::MAX };
    let statement = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    vec![
        // The call's number.
        statement(0x20, 0),
        // At least `first`: the next one, else the one after it.
        sock_filter { code: 0x35, jt: 0, jf: 1, k: first },
        statement(0x06, 0x0005_0000 | ENOSYS),
        statement(0x06, 0x7fff_0000),
    ]
}

fn absent() -> io::Result<Rules> {
    let mut rules = Rules::new();
    for call in [n::IO_URING_SETUP, n::IO_URING_ENTER, n::IO_URING_REGISTER, n::CLONE3] {
        always(&mut rules, call);
    }
    Ok(rules)
}

/// Extended attributes, which Landlock does not see.
fn attributes(owner: Owner) -> io::Result<Rules> {
    let mut rules = Rules::new();
    let write = [n::SETXATTR, n::LSETXATTR, n::FSETXATTR, n::SETXATTRAT];
    let remove = [n::REMOVEXATTR, n::LREMOVEXATTR, n::FREMOVEXATTR, n::REMOVEXATTRAT, n::FILE_SETATTR];
    for call in write.into_iter().chain(remove) {
        always(&mut rules, call);
    }
    if owner == Owner::Overriding {
        for call in [n::GETXATTR, n::LGETXATTR, n::FGETXATTR, n::GETXATTRAT] {
            always(&mut rules, call);
        }
    }
    Ok(rules)
}

/// Modes and times of files, which Landlock does not see. Where the process could change those of any file of the
/// worker's, the call does nothing: programs that copy files would otherwise fail for the least of reasons.
fn metadata(owner: Owner) -> io::Result<Rules> {
    let mut rules = Rules::new();
    if owner == Owner::Worker {
        for call in [n::CHMOD, n::FCHMOD, n::FCHMODAT, n::FCHMODAT2] {
            always(&mut rules, call);
        }
    }
    if owner != Owner::Itself {
        for call in [n::UTIME, n::UTIMES, n::FUTIMESAT, n::UTIMENSAT] {
            always(&mut rules, call);
        }
    }
    Ok(rules)
}

fn forbidden(owner: Owner) -> io::Result<Rules> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules = Rules::new();
    let others = [n::PTRACE, n::PROCESS_VM_READV, n::PROCESS_VM_WRITEV, n::PIDFD_GETFD, n::KCMP, n::PROCESS_MADVISE];
    let others = others.into_iter().chain([n::PROCESS_MRELEASE, n::MOVE_PAGES, n::MIGRATE_PAGES, n::PERF_EVENT_OPEN]);
    let mounts = [n::MOUNT, n::UMOUNT2, n::MOVE_MOUNT, n::OPEN_TREE, n::OPEN_TREE_ATTR, n::FSOPEN, n::FSCONFIG];
    let mounts = mounts.into_iter().chain([n::FSMOUNT, n::FSPICK, n::MOUNT_SETATTR, n::PIVOT_ROOT, n::CHROOT]);
    let kernel = [n::BPF, n::USERFAULTFD, n::KEYCTL, n::ADD_KEY, n::REQUEST_KEY, n::KEXEC_LOAD, n::KEXEC_FILE_LOAD];
    let modules = [n::INIT_MODULE, n::FINIT_MODULE, n::DELETE_MODULE, n::SYSLOG, n::IOPL, n::IOPERM, n::MODIFY_LDT];
    let files = [n::OPEN_BY_HANDLE_AT, n::NAME_TO_HANDLE_AT, n::FANOTIFY_INIT, n::FANOTIFY_MARK, n::QUOTACTL];
    let system = [n::ACCT, n::SWAPON, n::SWAPOFF, n::REBOOT, n::SETHOSTNAME, n::SETDOMAINNAME, n::VHANGUP];
    let clock = [n::SETTIMEOFDAY, n::CLOCK_SETTIME, n::ADJTIMEX, n::CLOCK_ADJTIME];
    // Memory and queues that would outlive the call, and that no limit counts.
    let lasting = [n::SHMGET, n::SEMGET, n::MSGGET, n::MQ_OPEN];
    let rest = [n::UNSHARE, n::SETNS, n::QUOTACTL_FD];
    let fixed = kernel.into_iter().chain(modules).chain(files).chain(system).chain(clock).chain(lasting).chain(rest);
    for call in others.chain(mounts).chain(fixed) {
        always(&mut rules, call);
    }
    if owner == Owner::Worker {
        for call in [n::CHOWN, n::FCHOWN, n::LCHOWN, n::FCHOWNAT] {
            always(&mut rules, call);
        }
    }
    for namespace in CLONE_NEW {
        when(&mut rules, n::CLONE, &[(0, Dword, MaskedEq(namespace), namespace)])?;
    }
    when(&mut rules, n::PERSONALITY, &[(0, Dword, Ne, 0), (0, Dword, Ne, 0xffff_ffff)])?;
    for request in [TIOCSTI, TIOCLINUX] {
        when(&mut rules, n::IOCTL, &[(1, Dword, Eq, request)])?;
    }
    for (call, mode) in [(n::MKNOD, 1), (n::MKNODAT, 2)] {
        for kind in [S_IFCHR, S_IFBLK] {
            when(&mut rules, call, &[(mode, Dword, MaskedEq(S_IFMT), kind)])?;
        }
    }
    // Limits and priorities of other processes: the worker may have the same user.
    when(&mut rules, n::PRLIMIT64, &[(0, Dword, Ne, 0), (2, Qword, Ne, 0)])?;
    for call in [n::SCHED_SETATTR, n::SCHED_SETPARAM, n::SCHED_SETSCHEDULER] {
        when(&mut rules, call, &[(0, Dword, Ne, 0)])?;
    }
    for (call, process) in [(n::SETPRIORITY, 0), (n::IOPRIO_SET, 1)] {
        when(&mut rules, call, &[(0, Dword, Ne, process)])?;
        when(&mut rules, call, &[(1, Dword, Ne, 0)])?;
    }
    Ok(rules)
}

fn sockets(network: &Network) -> io::Result<Rules> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules = Rules::new();
    // A pair is a pipe with two ways; a datagram one could be pointed at any socket of the system.
    when(&mut rules, n::SOCKETPAIR, &[(0, Dword, Ne, AF_UNIX)])?;
    when(&mut rules, n::SOCKETPAIR, &[(1, Dword, MaskedEq(SOCK_TYPE_MASK), SOCK_DGRAM)])?;
    let kinds: &[u64] = match network {
        Network::None => {
            always(&mut rules, n::SOCKET);
            always(&mut rules, n::LISTEN);
            return Ok(rules);
        }
        Network::Connect(_) => &[SOCK_STREAM],
        Network::Full => &[SOCK_STREAM, SOCK_DGRAM],
    };
    when(&mut rules, n::SOCKET, &[(0, Dword, Ne, AF_INET), (0, Dword, Ne, AF_INET6)])?;
    for kind in (0..=SOCK_TYPE_MASK).filter(|kind| !kinds.contains(kind)) {
        when(&mut rules, n::SOCKET, &[(1, Dword, MaskedEq(SOCK_TYPE_MASK), kind)])?;
    }
    if *network == Network::Full {
        return Ok(rules);
    }
    // Other protocols (MPTCP, SMC, SCTP) are streams too, and Landlock's rules for TCP are not for them.
    when(&mut rules, n::SOCKET, &[(2, Dword, Ne, 0), (2, Dword, Ne, IPPROTO_TCP)])?;
    for option in [TCP_FASTOPEN_CONNECT, TCP_ULP] {
        when(&mut rules, n::SETSOCKOPT, &[(1, Dword, Eq, IPPROTO_TCP), (2, Dword, Eq, option)])?;
    }
    // Connecting by sending: Landlock is not asked.
    for (call, flags) in [(n::SENDTO, 3), (n::SENDMSG, 2), (n::SENDMMSG, 3)] {
        when(&mut rules, call, &[(flags, Qword, MaskedEq(MSG_FASTOPEN), MSG_FASTOPEN)])?;
    }
    // A socket that listens without an address gets one, and Landlock is not asked either.
    for call in [n::LISTEN, n::ACCEPT, n::ACCEPT4] {
        always(&mut rules, call);
    }
    Ok(rules)
}

fn always(rules: &mut Rules, call: i64) {
    if call != n::ABSENT {
        rules.insert(call, Vec::new());
    }
}

fn when(rules: &mut Rules, call: i64, conditions: When<'_>) -> io::Result<()> {
    if call == n::ABSENT {
        return Ok(());
    }
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(argument, length, operator, value)| {
            SeccompCondition::new(*argument, length.clone(), operator.clone(), *value)
        })
        .collect();
    let rule = conditions.and_then(SeccompRule::new).map_err(io::Error::other)?;
    rules.entry(call).or_default().push(rule);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_filter_compiles_within_the_kernels_bound() {
        for network in [Network::None, Network::Connect(vec![443]), Network::Full] {
            for owner in [Owner::Itself, Owner::Overriding, Owner::Worker] {
                let filters = Filters::compile(&network, owner).unwrap();
                assert!(filters.0.iter().all(|it| (1..4096).contains(&it.len())), "{network:?} {owner:?}");
            }
        }
    }
}
