//! The system calls that a process may make, by what they are for. A call that is not here is refused.
//!
//! What only some processes may make is in [`BY_PROFILE`]. Of some calls, not all arguments are allowed:
//! [`conditions`](super::conditions).

use super::profile::errno::{DONE, EACCES, EINVAL, ENOSYS, EOPNOTSUPP, EPERM};
use super::profile::{Group, Makes, Owner, Profile, calls};
use crate::manifest::Network;
use crate::process::jail::numbers as n;

/// What every process may do.
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
        reason: "Names of files and what is known of them: the same decide.",
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
        reason: "Its own memory, which is bounded.",
        calls: calls![
            BRK MMAP MUNMAP MREMAP MPROTECT MSYNC MINCORE MADVISE MLOCK MLOCK2 MUNLOCK MLOCKALL MUNLOCKALL
            REMAP_FILE_PAGES PKEY_ALLOC PKEY_FREE PKEY_MPROTECT MBIND GET_MEMPOLICY SET_MEMPOLICY
            SET_MEMPOLICY_HOME_NODE MSEAL MAP_SHADOW_STACK MEMBARRIER
        ],
    },
    Group {
        reason: "Shared memory, semaphores and queues of others, by their numbers: permissions decide. None can be made.",
        calls: calls![
            SHMAT SHMDT SHMCTL SEMOP SEMTIMEDOP SEMCTL MSGSND MSGRCV MSGCTL MQ_UNLINK MQ_TIMEDSEND MQ_TIMEDRECEIVE
            MQ_NOTIFY MQ_GETSETATTR
        ],
    },
    Group {
        reason: "Signals: namespaces, Landlock and users decide whom they reach.",
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
        reason: "Processes: starting them, waiting for them, ending. How many is bounded.",
        calls: calls![
            CLONE FORK VFORK EXECVE EXECVEAT EXIT EXIT_GROUP WAIT4 WAITID PIDFD_OPEN GETPID GETPPID GETTID GETPGID
            SETPGID GETPGRP GETSID SETSID PRCTL ARCH_PRCTL PERSONALITY
        ],
    },
    Group {
        reason: "Threads: what they wait on each other by, and what the kernel keeps for each.",
        calls: calls![
            FUTEX FUTEX_WAITV FUTEX_WAIT FUTEX_WAKE FUTEX_REQUEUE SET_ROBUST_LIST GET_ROBUST_LIST SET_TID_ADDRESS RSEQ
        ],
    },
    Group {
        reason: "Its own limits, priority and processors: none can be raised without a capability.",
        calls: calls![
            GETRLIMIT SETRLIMIT PRLIMIT64 GETRUSAGE GETPRIORITY SETPRIORITY IOPRIO_GET IOPRIO_SET SCHED_YIELD
            SCHED_GETAFFINITY SCHED_SETAFFINITY SCHED_GETATTR SCHED_SETATTR SCHED_GETPARAM SCHED_SETPARAM
            SCHED_GETSCHEDULER SCHED_SETSCHEDULER SCHED_GET_PRIORITY_MAX SCHED_GET_PRIORITY_MIN SCHED_RR_GET_INTERVAL
        ],
    },
    Group {
        reason: "Who it is: without a capability it can become nobody else.",
        calls: calls![
            GETUID GETEUID GETGID GETEGID GETRESUID GETRESGID GETGROUPS SETUID SETGID SETREUID SETREGID SETRESUID
            SETRESGID SETFSUID SETFSGID SETGROUPS CAPGET CAPSET
        ],
    },
    Group { reason: "What machine it runs on, and random numbers.", calls: calls![UNAME SYSINFO GETCPU GETRANDOM] },
    Group {
        reason: "Walls of its own: they only take away.",
        calls: calls![
            SECCOMP LANDLOCK_CREATE_RULESET LANDLOCK_ADD_RULE LANDLOCK_RESTRICT_SELF LSM_GET_SELF_ATTR
            LSM_SET_SELF_ATTR LSM_LIST_MODULES
        ],
    },
    Group {
        reason: "Sockets that it has: what it can have is decided where they are made.",
        calls: calls![
            SOCKETPAIR BIND CONNECT SENDTO SENDMSG SENDMMSG RECVFROM RECVMSG RECVMMSG SHUTDOWN GETSOCKNAME GETPEERNAME
            GETSOCKOPT SETSOCKOPT
        ],
    },
    Group {
        reason: "Where the kernel's probes return to: without them, a process that is traced from outside would be killed.",
        calls: calls![URETPROBE UPROBE],
    },
];

/// A group that some processes may use.
pub(super) struct Granted {
    pub(super) group: Group,
    /// Who may.
    pub(super) to: fn(&Profile<'_>) -> bool,
    /// What the others are told.
    pub(super) otherwise: u32,
}

/// What a process may do if its profile says so.
pub(super) const BY_PROFILE: &[Granted] = &[
    Granted {
        group: Group { reason: "Sockets of the network, which the manifest grants.", calls: calls![SOCKET] },
        // A browser has a network of its own, in which nobody else is.
        to: |it| *it.network != Network::None || it.makes == Makes::Sandbox,
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Listening. Landlock is not asked when a socket without an address listens.",
            calls: calls![LISTEN],
        },
        to: |it| *it.network == Network::Full || it.makes == Makes::Sandbox,
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Taking connections, for who may listen. Without a network no socket can have any.",
            calls: calls![ACCEPT ACCEPT4],
        },
        to: |it| !matches!(it.network, Network::Connect(_)),
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Modes. The worker's user may own any file: nothing happens, as programs that copy files would fail \
                     for the least of reasons.",
            calls: calls![CHMOD FCHMOD FCHMODAT FCHMODAT2],
        },
        to: |it| it.owner != Owner::Worker,
        otherwise: DONE,
    },
    Granted {
        group: Group {
            reason: "Owners of files. The worker's user may own any file.",
            calls: calls![CHOWN FCHOWN LCHOWN FCHOWNAT],
        },
        to: |it| it.owner != Owner::Worker,
        otherwise: EPERM,
    },
    Granted {
        group: Group {
            reason: "Times of files, for a user that can change only its own. Nothing happens otherwise, as with modes.",
            calls: calls![UTIME UTIMES FUTIMESAT UTIMENSAT],
        },
        to: |it| it.owner == Owner::Itself,
        otherwise: DONE,
    },
    Granted {
        group: Group {
            reason: "Extended attributes: a user that passes permissions could read those of any file.",
            calls: calls![GETXATTR LGETXATTR FGETXATTR GETXATTRAT],
        },
        to: |it| it.owner != Owner::Overriding,
        otherwise: EOPNOTSUPP,
    },
    Granted {
        group: Group {
            reason: "Watching folders: a user that passes permissions could learn what comes and goes in any.",
            calls: calls![INOTIFY_ADD_WATCH],
        },
        to: |it| it.owner != Owner::Overriding,
        otherwise: EACCES,
    },
    Granted {
        group: Group {
            reason: "Files without a name, in memory that looking at processes does not show.",
            calls: calls![MEMFD_CREATE],
        },
        to: |it| it.counted,
        otherwise: ENOSYS,
    },
    Granted {
        group: Group {
            reason: "Pages that pipes and sockets share instead of bytes: for one byte they keep a huge page, also one that is \
                     no process's and no file's any more. Programs copy instead, as where a file can't do this.",
            calls: calls![VMSPLICE SPLICE TEE SENDFILE],
        },
        to: |it| it.counted,
        otherwise: EINVAL,
    },
    Granted {
        group: Group {
            reason: "Mounts and others' namespaces, which a fork server needs for its calls.",
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
            reason: "A root without files, which a browser gives its pages. Who is in a root of its own gains nothing by it.",
            calls: calls![CHROOT],
        },
        to: |it| it.makes == Makes::Sandbox,
        otherwise: EPERM,
    },
];
