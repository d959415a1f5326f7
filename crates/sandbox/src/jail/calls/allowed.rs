//! The system calls that processes may make, by purpose. Calls that are not listed are refused.
//!
//! [`BY_PROFILE`] lists calls that only some processes may make. [`conditions`](super::conditions) restricts the
//! arguments of some calls.

use super::profile::errno::{DONE, EACCES, EINVAL, ENOSYS, EOPNOTSUPP, EPERM};
use super::profile::{FileOwner, Group, Makes, Profile, calls};
use crate::jail::numbers as n;
use crate::jail::requirement::Network;

/// The calls that all processes may make.
pub(super) const ALWAYS: &[Group] = &[
    Group {
        reason: "Content of files and pipes: namespaces, Landlock and permissions decide what can be opened.",
        calls: calls![
            OPEN OPENAT CREAT CLOSE CLOSE_RANGE READ WRITE READV WRITEV PREAD64 PWRITE64 PREADV PWRITEV PREADV2
            PWRITEV2 LSEEK COPY_FILE_RANGE FALLOCATE TRUNCATE FTRUNCATE FSYNC FDATASYNC SYNC SYNCFS SYNC_FILE_RANGE
            FADVISE64 READAHEAD CACHESTAT FLOCK FCNTL IOCTL DUP DUP2 DUP3 PIPE PIPE2
        ],
    },
    Group {
        reason: "Names and metadata of files: the same rules decide.",
        calls: calls![
            STAT LSTAT FSTAT NEWFSTATAT STATX ACCESS FACCESSAT FACCESSAT2 READLINK READLINKAT GETDENTS GETDENTS64
            GETCWD CHDIR FCHDIR MKDIR MKDIRAT RMDIR UNLINK UNLINKAT RENAME RENAMEAT RENAMEAT2 LINK LINKAT SYMLINK
            SYMLINKAT MKNOD MKNODAT UMASK STATFS FSTATFS USTAT SYSFS STATMOUNT LISTMOUNT LISTXATTR LLISTXATTR
            FLISTXATTR LISTXATTRAT FILE_GETATTR INOTIFY_INIT INOTIFY_INIT1 INOTIFY_RM_WATCH
        ],
    },
    Group {
        reason: "Waiting for descriptors.",
        calls: calls![
            POLL PPOLL SELECT PSELECT6 EPOLL_CREATE EPOLL_CREATE1 EPOLL_CTL EPOLL_WAIT EPOLL_PWAIT EPOLL_PWAIT2
            EVENTFD EVENTFD2
        ],
    },
    Group {
        reason: "Memory of the process, which is bounded.",
        calls: calls![
            BRK MMAP MUNMAP MREMAP MPROTECT MSYNC MINCORE MADVISE MLOCK MLOCK2 MUNLOCK MLOCKALL MUNLOCKALL
            REMAP_FILE_PAGES PKEY_ALLOC PKEY_FREE PKEY_MPROTECT MBIND GET_MEMPOLICY SET_MEMPOLICY
            SET_MEMPOLICY_HOME_NODE MSEAL MAP_SHADOW_STACK MEMBARRIER
        ],
    },
    Group {
        reason: "Existing shared memory, semaphores and queues, by number: permissions decide. The process cannot create any.",
        calls: calls![
            SHMAT SHMDT SHMCTL SEMOP SEMTIMEDOP SEMCTL MSGSND MSGRCV MSGCTL MQ_UNLINK MQ_TIMEDSEND MQ_TIMEDRECEIVE
            MQ_NOTIFY MQ_GETSETATTR
        ],
    },
    Group {
        reason: "Signals: namespaces, Landlock and users decide which processes they reach.",
        calls: calls![
            RT_SIGACTION RT_SIGPROCMASK RT_SIGRETURN RT_SIGPENDING RT_SIGTIMEDWAIT RT_SIGSUSPEND RT_SIGQUEUEINFO
            RT_TGSIGQUEUEINFO SIGALTSTACK PAUSE KILL TKILL TGKILL SIGNALFD SIGNALFD4 PIDFD_SEND_SIGNAL RESTART_SYSCALL
        ],
    },
    Group {
        reason: "Time: reading clocks, sleeping, timers.",
        calls: calls![
            CLOCK_GETTIME CLOCK_GETRES CLOCK_NANOSLEEP NANOSLEEP GETTIMEOFDAY TIME TIMES ALARM GETITIMER SETITIMER
            TIMER_CREATE TIMER_SETTIME TIMER_GETTIME TIMER_GETOVERRUN TIMER_DELETE TIMERFD_CREATE TIMERFD_SETTIME
            TIMERFD_GETTIME
        ],
    },
    Group {
        reason: "Processes: starting, waiting and ending. Their number is bounded.",
        calls: calls![
            CLONE FORK VFORK EXECVE EXECVEAT EXIT EXIT_GROUP WAIT4 WAITID PIDFD_OPEN GETPID GETPPID GETTID GETPGID
            SETPGID GETPGRP GETSID SETSID PRCTL ARCH_PRCTL PERSONALITY
        ],
    },
    Group {
        reason: "Threads: synchronization, and the kernel's state of each thread.",
        calls: calls![
            FUTEX FUTEX_WAITV FUTEX_WAIT FUTEX_WAKE FUTEX_REQUEUE SET_ROBUST_LIST GET_ROBUST_LIST SET_TID_ADDRESS RSEQ
        ],
    },
    Group {
        reason: "Limits, priority and processors of the process: none can be raised without a capability.",
        calls: calls![
            GETRLIMIT SETRLIMIT PRLIMIT64 GETRUSAGE GETPRIORITY SETPRIORITY IOPRIO_GET IOPRIO_SET SCHED_YIELD
            SCHED_GETAFFINITY SCHED_SETAFFINITY SCHED_GETATTR SCHED_SETATTR SCHED_GETPARAM SCHED_SETPARAM
            SCHED_GETSCHEDULER SCHED_SETSCHEDULER SCHED_GET_PRIORITY_MAX SCHED_GET_PRIORITY_MIN SCHED_RR_GET_INTERVAL
        ],
    },
    Group {
        reason: "Identity of the process: it cannot change without a capability.",
        calls: calls![
            GETUID GETEUID GETGID GETEGID GETRESUID GETRESGID GETGROUPS SETUID SETGID SETREUID SETREGID SETRESUID
            SETRESGID SETFSUID SETFSGID SETGROUPS CAPGET CAPSET
        ],
    },
    Group {
        reason: "Information about the machine, and random numbers.",
        calls: calls![UNAME SYSINFO GETCPU GETRANDOM],
    },
    Group {
        reason: "Further restrictions of the process: they only remove rights.",
        calls: calls![
            SECCOMP LANDLOCK_CREATE_RULESET LANDLOCK_ADD_RULE LANDLOCK_RESTRICT_SELF LSM_GET_SELF_ATTR
            LSM_SET_SELF_ATTR LSM_LIST_MODULES
        ],
    },
    Group {
        reason: "Use of open sockets: the calls that create sockets are restricted.",
        calls: calls![
            SOCKETPAIR BIND CONNECT SENDTO SENDMSG SENDMMSG RECVFROM RECVMSG RECVMMSG SHUTDOWN GETSOCKNAME GETPEERNAME
            GETSOCKOPT SETSOCKOPT
        ],
    },
    Group {
        reason: "Return from the kernel's probes: without these calls, a process that is traced from outside would be killed.",
        calls: calls![URETPROBE UPROBE],
    },
];

/// A group of calls that only some processes may make.
pub(super) struct Granted {
    pub(super) group: Group,
    /// Returns whether a process may make the calls.
    pub(super) to: fn(&Profile<'_>) -> bool,
    /// The error for all other processes.
    pub(super) otherwise: u32,
}

/// The calls that processes may make if their profile allows this.
pub(super) const BY_PROFILE: &[Granted] = &[
    Granted {
        group: Group { reason: "Network sockets, which the manifest grants.", calls: calls![SOCKET] },
        // A browser has its own network, which it shares with no other process.
        to: |it| *it.network != Network::None || it.makes == Makes::Sandbox,
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Listening. Landlock does not check sockets that listen without an address.",
            calls: calls![LISTEN],
        },
        to: |it| *it.network == Network::Full || it.makes == Makes::Sandbox,
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Accepting connections, if listening is allowed. Without a network, sockets receive no connections.",
            calls: calls![ACCEPT ACCEPT4],
        },
        to: |it| !matches!(it.network, Network::Connect(_)),
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Modes of files. The worker's user may own any file, so the calls have no effect. With an error, programs that copy files would fail \
                     for a minor reason.",
            calls: calls![CHMOD FCHMOD FCHMODAT FCHMODAT2],
        },
        to: |it| it.owner != FileOwner::Worker,
        otherwise: DONE,
    },
    Granted {
        group: Group {
            reason: "Owners of files. The worker's user may own any file.",
            calls: calls![CHOWN FCHOWN LCHOWN FCHOWNAT],
        },
        to: |it| it.owner != FileOwner::Worker,
        otherwise: EPERM,
    },
    Granted {
        group: Group {
            reason: "Times of files, for a user that can change only its own files. Otherwise the calls have no effect, as with modes.",
            calls: calls![UTIME UTIMES FUTIMESAT UTIMENSAT],
        },
        to: |it| it.owner == FileOwner::Itself,
        otherwise: DONE,
    },
    Granted {
        group: Group {
            reason: "Extended attributes: a user that bypasses permissions could read the attributes of any file.",
            calls: calls![GETXATTR LGETXATTR FGETXATTR GETXATTRAT],
        },
        to: |it| it.owner != FileOwner::Overriding,
        otherwise: EOPNOTSUPP,
    },
    Granted {
        group: Group {
            reason: "Watching folders: a user that bypasses permissions could watch any folder.",
            calls: calls![INOTIFY_ADD_WATCH],
        },
        to: |it| it.owner != FileOwner::Overriding,
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Files without a name, in memory that is not visible in process listings.",
            calls: calls![MEMFD_CREATE],
        },
        to: |it| it.counted,
        otherwise: ENOSYS,
    },
    Granted {
        group: Group {
            reason: "Pages that pipes and sockets share instead of bytes: one byte can keep a huge page in memory, even one that belongs to \
                     no process and no file any more. Programs copy the data instead.",
            calls: calls![VMSPLICE SPLICE TEE SENDFILE],
        },
        to: |it| it.counted,
        otherwise: EINVAL,
    },
    Granted {
        group: Group {
            reason: "Mounts and namespaces of other processes, which a fork server needs for its calls.",
            calls: calls![MOUNT SETNS],
        },
        to: |it| it.makes == Makes::Namespaces,
        otherwise: EPERM,
    },
    Granted {
        group: Group {
            reason: "Namespaces, which a fork server makes for its calls, and a browser for its pages.",
            calls: calls![UNSHARE],
        },
        to: |it| it.makes != Makes::Nothing,
        otherwise: EPERM,
    },
    Granted {
        group: Group {
            reason: "A root without files, which a browser gives its pages. A process that has its own root gains nothing.",
            calls: calls![CHROOT],
        },
        to: |it| it.makes == Makes::Sandbox,
        otherwise: EPERM,
    },
];
