//! The system calls that no process may make, with their errors. A call that is neither listed here nor allowed
//! fails as if it did not exist.

use super::profile::errno::{ENOSYS, EOPNOTSUPP, EPERM};
use super::profile::{Group, calls};
use crate::jail::numbers as n;

/// The calls that no process may make, each group with its error.
pub(super) const NEVER: &[(u32, Group)] = &[
    (
        ENOSYS,
        Group {
            reason: "Calls whose arguments are in memory, which a filter cannot read. Programs fall back to older calls.",
            calls: calls![CLONE3 OPENAT2],
        },
    ),
    (
        ENOSYS,
        Group {
            reason: "Input and output that bypass the filter. Programs fall back to older calls.",
            calls: calls![IO_URING_SETUP IO_URING_ENTER IO_URING_REGISTER],
        },
    ),
    (
        ENOSYS,
        Group {
            reason: "Asynchronous input and output: all users of the machine share one limit.",
            calls: calls![IO_SETUP IO_DESTROY IO_SUBMIT IO_CANCEL IO_GETEVENTS IO_PGETEVENTS],
        },
    ),
    (ENOSYS, Group { reason: "Memory that no limit counts.", calls: calls![MEMFD_SECRET] }),
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
            reason: "Attributes of files, which Landlock does not check. The error is that of a file system without attributes.",
            calls: calls![
                SETXATTR LSETXATTR FSETXATTR SETXATTRAT REMOVEXATTR LREMOVEXATTR FREMOVEXATTR REMOVEXATTRAT
                FILE_SETATTR
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Access to files without their names, and events of other users' files.",
            calls: calls![OPEN_BY_HANDLE_AT NAME_TO_HANDLE_AT FANOTIFY_INIT FANOTIFY_MARK],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Other mounts and roots, which lead to other files. A fork server does not need these calls.",
            calls: calls![
                UMOUNT2 MOVE_MOUNT OPEN_TREE OPEN_TREE_ATTR MOUNT_SETATTR FSOPEN FSCONFIG FSMOUNT FSPICK PIVOT_ROOT
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Access to other processes: the worker may run as the same user.",
            calls: calls![
                PTRACE PROCESS_VM_READV PROCESS_VM_WRITEV PIDFD_GETFD KCMP PROCESS_MADVISE PROCESS_MRELEASE MOVE_PAGES
                MIGRATE_PAGES
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Large parts of the kernel that tools do not need and that had many vulnerabilities.",
            calls: calls![
                BPF USERFAULTFD PERF_EVENT_OPEN KEYCTL ADD_KEY REQUEST_KEY MODIFY_LDT
            ],
        },
    ),
    (
        EPERM,
        Group {
            reason: "Control of the kernel and the machine.",
            calls: calls![
                KEXEC_LOAD KEXEC_FILE_LOAD INIT_MODULE FINIT_MODULE DELETE_MODULE REBOOT SYSLOG IOPL IOPERM VHANGUP
                ACCT SWAPON SWAPOFF QUOTACTL QUOTACTL_FD SETHOSTNAME SETDOMAINNAME
            ],
        },
    ),
    (EPERM, Group { reason: "The system's clocks.", calls: calls![SETTIMEOFDAY CLOCK_SETTIME ADJTIMEX CLOCK_ADJTIME] }),
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
