//! The system calls that no process may make, and what it is told. A call that is neither here nor among the allowed ones does
//! not exist.

use super::profile::errno::{ENOSYS, EOPNOTSUPP, EPERM};
use super::profile::{Group, calls};
use crate::process::jail::numbers as n;

/// What no process may do, with the error.
pub(super) const NEVER: &[(u32, Group)] = &[
    (
        ENOSYS,
        Group {
            reason: "Their arguments are in memory, where a filter does not look. Programs fall back to older calls.",
            calls: calls![CLONE3 OPENAT2],
        },
    ),
    (
        ENOSYS,
        Group {
            reason: "Input and output that no filter sees. Programs fall back to older calls.",
            calls: calls![IO_URING_SETUP IO_URING_ENTER IO_URING_REGISTER],
        },
    ),
    (
        ENOSYS,
        Group {
            reason: "Input and output that is waited for later: the machine has one number of them for all users.",
            calls: calls![IO_SETUP IO_DESTROY IO_SUBMIT IO_CANCEL IO_GETEVENTS IO_PGETEVENTS],
        },
    ),
    (ENOSYS, Group { reason: "Memory that nothing counts.", calls: calls![MEMFD_SECRET] }),
    (
        EPERM,
        Group {
            reason: "Memory and queues that would outlive the call, and that no limit counts.",
            calls: calls![SHMGET SEMGET MSGGET MQ_OPEN],
        },
    ),
    (
        EOPNOTSUPP,
        Group {
            reason: "Attributes of files, which Landlock does not see: as of a file system that has none.",
            calls: calls![
                SETXATTR LSETXATTR FSETXATTR SETXATTRAT REMOVEXATTR LREMOVEXATTR FREMOVEXATTR REMOVEXATTRAT
                FILE_SETATTR
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Ways to files past their names, and the news of others' files.",
            calls: calls![OPEN_BY_HANDLE_AT NAME_TO_HANDLE_AT FANOTIFY_INIT FANOTIFY_MARK],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Other mounts and roots, a way to other files. A fork server needs none of these.",
            calls: calls![
                UMOUNT2 MOVE_MOUNT OPEN_TREE OPEN_TREE_ATTR MOUNT_SETATTR FSOPEN FSCONFIG FSMOUNT FSPICK PIVOT_ROOT
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Other processes: what they hold and what they do. The worker may have the same user.",
            calls: calls![
                PTRACE PROCESS_VM_READV PROCESS_VM_WRITEV PIDFD_GETFD KCMP PROCESS_MADVISE PROCESS_MRELEASE MOVE_PAGES
                MIGRATE_PAGES
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Large parts of the kernel that tools do not need, and that had many flaws.",
            calls: calls![
                BPF USERFAULTFD PERF_EVENT_OPEN KEYCTL ADD_KEY REQUEST_KEY MODIFY_LDT
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "The kernel itself, and the machine.",
            calls: calls![
                KEXEC_LOAD KEXEC_FILE_LOAD INIT_MODULE FINIT_MODULE DELETE_MODULE REBOOT SYSLOG IOPL IOPERM VHANGUP
                ACCT SWAPON SWAPOFF QUOTACTL QUOTACTL_FD SETHOSTNAME SETDOMAINNAME
            ],
        },
    ),
    (EPERM, Group { reason: "The clocks of all.", calls: calls![SETTIMEOFDAY CLOCK_SETTIME ADJTIMEX CLOCK_ADJTIME] }),
    (
        ENOSYS,
        Group {
            reason: "Calls that Linux no longer has, or never had on these architectures.",
            calls: calls![
                SYSCTL CREATE_MODULE GET_KERNEL_SYMS QUERY_MODULE NFSSERVCTL GETPMSG PUTPMSG AFS_SYSCALL TUXCALL
                SECURITY VSERVER USELIB LOOKUP_DCOOKIE SET_THREAD_AREA GET_THREAD_AREA EPOLL_CTL_OLD EPOLL_WAIT_OLD
            ],
        },
    ),
];
