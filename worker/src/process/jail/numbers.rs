//! Numbers of system calls, which the filters know them by: all of x86_64 and of aarch64, up to the newest that was reviewed.
//! From 424 on they are the same everywhere. A call that an architecture does not have is [`ABSENT`] there.

/// The first number that was not reviewed: a call of a newer kernel. No call of the x32 architecture has a lower one either.
pub(super) const UNREVIEWED: u32 = 470;

/// There is no such call here.
pub(super) const ABSENT: i64 = -1;

const fn here(x86_64: i64, aarch64: i64) -> i64 {
    if cfg!(target_arch = "x86_64") {
        x86_64
    } else if cfg!(target_arch = "aarch64") {
        aarch64
    } else {
        ABSENT
    }
}

macro_rules! numbers {
    ($($konst:ident $name:literal $x86_64:literal $aarch64:literal;)*) => {
        $(pub(super) const $konst: i64 = here($x86_64, $aarch64);)*

        /// All of them, for comparing with the system's headers and with the groups.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, i64, i64)] = &[$(($name, $x86_64, $aarch64)),*];
    };
}

numbers! {
    ACCEPT "accept" 43 202;
    ACCEPT4 "accept4" 288 242;
    ACCESS "access" 21 -1;
    ACCT "acct" 163 89;
    ADD_KEY "add_key" 248 217;
    ADJTIMEX "adjtimex" 159 171;
    AFS_SYSCALL "afs_syscall" 183 -1;
    ALARM "alarm" 37 -1;
    ARCH_PRCTL "arch_prctl" 158 -1;
    BIND "bind" 49 200;
    BPF "bpf" 321 280;
    BRK "brk" 12 214;
    CACHESTAT "cachestat" 451 451;
    CAPGET "capget" 125 90;
    CAPSET "capset" 126 91;
    CHDIR "chdir" 80 49;
    CHMOD "chmod" 90 -1;
    CHOWN "chown" 92 -1;
    CHROOT "chroot" 161 51;
    CLOCK_ADJTIME "clock_adjtime" 305 266;
    CLOCK_GETRES "clock_getres" 229 114;
    CLOCK_GETTIME "clock_gettime" 228 113;
    CLOCK_NANOSLEEP "clock_nanosleep" 230 115;
    CLOCK_SETTIME "clock_settime" 227 112;
    CLONE "clone" 56 220;
    CLONE3 "clone3" 435 435;
    CLOSE "close" 3 57;
    CLOSE_RANGE "close_range" 436 436;
    CONNECT "connect" 42 203;
    COPY_FILE_RANGE "copy_file_range" 326 285;
    CREAT "creat" 85 -1;
    CREATE_MODULE "create_module" 174 -1;
    DELETE_MODULE "delete_module" 176 106;
    DUP "dup" 32 23;
    DUP2 "dup2" 33 -1;
    DUP3 "dup3" 292 24;
    EPOLL_CREATE "epoll_create" 213 -1;
    EPOLL_CREATE1 "epoll_create1" 291 20;
    EPOLL_CTL "epoll_ctl" 233 21;
    EPOLL_CTL_OLD "epoll_ctl_old" 214 -1;
    EPOLL_PWAIT "epoll_pwait" 281 22;
    EPOLL_PWAIT2 "epoll_pwait2" 441 441;
    EPOLL_WAIT "epoll_wait" 232 -1;
    EPOLL_WAIT_OLD "epoll_wait_old" 215 -1;
    EVENTFD "eventfd" 284 -1;
    EVENTFD2 "eventfd2" 290 19;
    EXECVE "execve" 59 221;
    EXECVEAT "execveat" 322 281;
    EXIT "exit" 60 93;
    EXIT_GROUP "exit_group" 231 94;
    FACCESSAT "faccessat" 269 48;
    FACCESSAT2 "faccessat2" 439 439;
    FADVISE64 "fadvise64" 221 223;
    FALLOCATE "fallocate" 285 47;
    FANOTIFY_INIT "fanotify_init" 300 262;
    FANOTIFY_MARK "fanotify_mark" 301 263;
    FCHDIR "fchdir" 81 50;
    FCHMOD "fchmod" 91 52;
    FCHMODAT "fchmodat" 268 53;
    FCHMODAT2 "fchmodat2" 452 452;
    FCHOWN "fchown" 93 55;
    FCHOWNAT "fchownat" 260 54;
    FCNTL "fcntl" 72 25;
    FDATASYNC "fdatasync" 75 83;
    FGETXATTR "fgetxattr" 193 10;
    FILE_GETATTR "file_getattr" 468 468;
    FILE_SETATTR "file_setattr" 469 469;
    FINIT_MODULE "finit_module" 313 273;
    FLISTXATTR "flistxattr" 196 13;
    FLOCK "flock" 73 32;
    FORK "fork" 57 -1;
    FREMOVEXATTR "fremovexattr" 199 16;
    FSCONFIG "fsconfig" 431 431;
    FSETXATTR "fsetxattr" 190 7;
    FSMOUNT "fsmount" 432 432;
    FSOPEN "fsopen" 430 430;
    FSPICK "fspick" 433 433;
    FSTAT "fstat" 5 80;
    FSTATFS "fstatfs" 138 44;
    FSYNC "fsync" 74 82;
    FTRUNCATE "ftruncate" 77 46;
    FUTEX "futex" 202 98;
    FUTEX_REQUEUE "futex_requeue" 456 456;
    FUTEX_WAIT "futex_wait" 455 455;
    FUTEX_WAITV "futex_waitv" 449 449;
    FUTEX_WAKE "futex_wake" 454 454;
    FUTIMESAT "futimesat" 261 -1;
    GET_KERNEL_SYMS "get_kernel_syms" 177 -1;
    GET_MEMPOLICY "get_mempolicy" 239 236;
    GET_ROBUST_LIST "get_robust_list" 274 100;
    GET_THREAD_AREA "get_thread_area" 211 -1;
    GETCPU "getcpu" 309 168;
    GETCWD "getcwd" 79 17;
    GETDENTS "getdents" 78 -1;
    GETDENTS64 "getdents64" 217 61;
    GETEGID "getegid" 108 177;
    GETEUID "geteuid" 107 175;
    GETGID "getgid" 104 176;
    GETGROUPS "getgroups" 115 158;
    GETITIMER "getitimer" 36 102;
    GETPEERNAME "getpeername" 52 205;
    GETPGID "getpgid" 121 155;
    GETPGRP "getpgrp" 111 -1;
    GETPID "getpid" 39 172;
    GETPMSG "getpmsg" 181 -1;
    GETPPID "getppid" 110 173;
    GETPRIORITY "getpriority" 140 141;
    GETRANDOM "getrandom" 318 278;
    GETRESGID "getresgid" 120 150;
    GETRESUID "getresuid" 118 148;
    GETRLIMIT "getrlimit" 97 163;
    GETRUSAGE "getrusage" 98 165;
    GETSID "getsid" 124 156;
    GETSOCKNAME "getsockname" 51 204;
    GETSOCKOPT "getsockopt" 55 209;
    GETTID "gettid" 186 178;
    GETTIMEOFDAY "gettimeofday" 96 169;
    GETUID "getuid" 102 174;
    GETXATTR "getxattr" 191 8;
    GETXATTRAT "getxattrat" 464 464;
    INIT_MODULE "init_module" 175 105;
    INOTIFY_ADD_WATCH "inotify_add_watch" 254 27;
    INOTIFY_INIT "inotify_init" 253 -1;
    INOTIFY_INIT1 "inotify_init1" 294 26;
    INOTIFY_RM_WATCH "inotify_rm_watch" 255 28;
    IO_CANCEL "io_cancel" 210 3;
    IO_DESTROY "io_destroy" 207 1;
    IO_GETEVENTS "io_getevents" 208 4;
    IO_PGETEVENTS "io_pgetevents" 333 292;
    IO_SETUP "io_setup" 206 0;
    IO_SUBMIT "io_submit" 209 2;
    IO_URING_ENTER "io_uring_enter" 426 426;
    IO_URING_REGISTER "io_uring_register" 427 427;
    IO_URING_SETUP "io_uring_setup" 425 425;
    IOCTL "ioctl" 16 29;
    IOPERM "ioperm" 173 -1;
    IOPL "iopl" 172 -1;
    IOPRIO_GET "ioprio_get" 252 31;
    IOPRIO_SET "ioprio_set" 251 30;
    KCMP "kcmp" 312 272;
    KEXEC_FILE_LOAD "kexec_file_load" 320 294;
    KEXEC_LOAD "kexec_load" 246 104;
    KEYCTL "keyctl" 250 219;
    KILL "kill" 62 129;
    LANDLOCK_ADD_RULE "landlock_add_rule" 445 445;
    LANDLOCK_CREATE_RULESET "landlock_create_ruleset" 444 444;
    LANDLOCK_RESTRICT_SELF "landlock_restrict_self" 446 446;
    LCHOWN "lchown" 94 -1;
    LGETXATTR "lgetxattr" 192 9;
    LINK "link" 86 -1;
    LINKAT "linkat" 265 37;
    LISTEN "listen" 50 201;
    LISTMOUNT "listmount" 458 458;
    LISTXATTR "listxattr" 194 11;
    LISTXATTRAT "listxattrat" 465 465;
    LLISTXATTR "llistxattr" 195 12;
    LOOKUP_DCOOKIE "lookup_dcookie" 212 18;
    LREMOVEXATTR "lremovexattr" 198 15;
    LSEEK "lseek" 8 62;
    LSETXATTR "lsetxattr" 189 6;
    LSM_GET_SELF_ATTR "lsm_get_self_attr" 459 459;
    LSM_LIST_MODULES "lsm_list_modules" 461 461;
    LSM_SET_SELF_ATTR "lsm_set_self_attr" 460 460;
    LSTAT "lstat" 6 -1;
    MADVISE "madvise" 28 233;
    MAP_SHADOW_STACK "map_shadow_stack" 453 453;
    MBIND "mbind" 237 235;
    MEMBARRIER "membarrier" 324 283;
    MEMFD_CREATE "memfd_create" 319 279;
    MEMFD_SECRET "memfd_secret" 447 447;
    MIGRATE_PAGES "migrate_pages" 256 238;
    MINCORE "mincore" 27 232;
    MKDIR "mkdir" 83 -1;
    MKDIRAT "mkdirat" 258 34;
    MKNOD "mknod" 133 -1;
    MKNODAT "mknodat" 259 33;
    MLOCK "mlock" 149 228;
    MLOCK2 "mlock2" 325 284;
    MLOCKALL "mlockall" 151 230;
    MMAP "mmap" 9 222;
    MODIFY_LDT "modify_ldt" 154 -1;
    MOUNT "mount" 165 40;
    MOUNT_SETATTR "mount_setattr" 442 442;
    MOVE_MOUNT "move_mount" 429 429;
    MOVE_PAGES "move_pages" 279 239;
    MPROTECT "mprotect" 10 226;
    MQ_GETSETATTR "mq_getsetattr" 245 185;
    MQ_NOTIFY "mq_notify" 244 184;
    MQ_OPEN "mq_open" 240 180;
    MQ_TIMEDRECEIVE "mq_timedreceive" 243 183;
    MQ_TIMEDSEND "mq_timedsend" 242 182;
    MQ_UNLINK "mq_unlink" 241 181;
    MREMAP "mremap" 25 216;
    MSEAL "mseal" 462 462;
    MSGCTL "msgctl" 71 187;
    MSGGET "msgget" 68 186;
    MSGRCV "msgrcv" 70 188;
    MSGSND "msgsnd" 69 189;
    MSYNC "msync" 26 227;
    MUNLOCK "munlock" 150 229;
    MUNLOCKALL "munlockall" 152 231;
    MUNMAP "munmap" 11 215;
    NAME_TO_HANDLE_AT "name_to_handle_at" 303 264;
    NANOSLEEP "nanosleep" 35 101;
    NEWFSTATAT "newfstatat" 262 79;
    NFSSERVCTL "nfsservctl" 180 42;
    OPEN "open" 2 -1;
    OPEN_BY_HANDLE_AT "open_by_handle_at" 304 265;
    OPEN_TREE "open_tree" 428 428;
    OPEN_TREE_ATTR "open_tree_attr" 467 467;
    OPENAT "openat" 257 56;
    OPENAT2 "openat2" 437 437;
    PAUSE "pause" 34 -1;
    PERF_EVENT_OPEN "perf_event_open" 298 241;
    PERSONALITY "personality" 135 92;
    PIDFD_GETFD "pidfd_getfd" 438 438;
    PIDFD_OPEN "pidfd_open" 434 434;
    PIDFD_SEND_SIGNAL "pidfd_send_signal" 424 424;
    PIPE "pipe" 22 -1;
    PIPE2 "pipe2" 293 59;
    PIVOT_ROOT "pivot_root" 155 41;
    PKEY_ALLOC "pkey_alloc" 330 289;
    PKEY_FREE "pkey_free" 331 290;
    PKEY_MPROTECT "pkey_mprotect" 329 288;
    POLL "poll" 7 -1;
    PPOLL "ppoll" 271 73;
    PRCTL "prctl" 157 167;
    PREAD64 "pread64" 17 67;
    PREADV "preadv" 295 69;
    PREADV2 "preadv2" 327 286;
    PRLIMIT64 "prlimit64" 302 261;
    PROCESS_MADVISE "process_madvise" 440 440;
    PROCESS_MRELEASE "process_mrelease" 448 448;
    PROCESS_VM_READV "process_vm_readv" 310 270;
    PROCESS_VM_WRITEV "process_vm_writev" 311 271;
    PSELECT6 "pselect6" 270 72;
    PTRACE "ptrace" 101 117;
    PUTPMSG "putpmsg" 182 -1;
    PWRITE64 "pwrite64" 18 68;
    PWRITEV "pwritev" 296 70;
    PWRITEV2 "pwritev2" 328 287;
    QUERY_MODULE "query_module" 178 -1;
    QUOTACTL "quotactl" 179 60;
    QUOTACTL_FD "quotactl_fd" 443 443;
    READ "read" 0 63;
    READAHEAD "readahead" 187 213;
    READLINK "readlink" 89 -1;
    READLINKAT "readlinkat" 267 78;
    READV "readv" 19 65;
    REBOOT "reboot" 169 142;
    RECVFROM "recvfrom" 45 207;
    RECVMMSG "recvmmsg" 299 243;
    RECVMSG "recvmsg" 47 212;
    REMAP_FILE_PAGES "remap_file_pages" 216 234;
    REMOVEXATTR "removexattr" 197 14;
    REMOVEXATTRAT "removexattrat" 466 466;
    RENAME "rename" 82 -1;
    RENAMEAT "renameat" 264 38;
    RENAMEAT2 "renameat2" 316 276;
    REQUEST_KEY "request_key" 249 218;
    RESTART_SYSCALL "restart_syscall" 219 128;
    RMDIR "rmdir" 84 -1;
    RSEQ "rseq" 334 293;
    RT_SIGACTION "rt_sigaction" 13 134;
    RT_SIGPENDING "rt_sigpending" 127 136;
    RT_SIGPROCMASK "rt_sigprocmask" 14 135;
    RT_SIGQUEUEINFO "rt_sigqueueinfo" 129 138;
    RT_SIGRETURN "rt_sigreturn" 15 139;
    RT_SIGSUSPEND "rt_sigsuspend" 130 133;
    RT_SIGTIMEDWAIT "rt_sigtimedwait" 128 137;
    RT_TGSIGQUEUEINFO "rt_tgsigqueueinfo" 297 240;
    SCHED_GET_PRIORITY_MAX "sched_get_priority_max" 146 125;
    SCHED_GET_PRIORITY_MIN "sched_get_priority_min" 147 126;
    SCHED_GETAFFINITY "sched_getaffinity" 204 123;
    SCHED_GETATTR "sched_getattr" 315 275;
    SCHED_GETPARAM "sched_getparam" 143 121;
    SCHED_GETSCHEDULER "sched_getscheduler" 145 120;
    SCHED_RR_GET_INTERVAL "sched_rr_get_interval" 148 127;
    SCHED_SETAFFINITY "sched_setaffinity" 203 122;
    SCHED_SETATTR "sched_setattr" 314 274;
    SCHED_SETPARAM "sched_setparam" 142 118;
    SCHED_SETSCHEDULER "sched_setscheduler" 144 119;
    SCHED_YIELD "sched_yield" 24 124;
    SECCOMP "seccomp" 317 277;
    SECURITY "security" 185 -1;
    SELECT "select" 23 -1;
    SEMCTL "semctl" 66 191;
    SEMGET "semget" 64 190;
    SEMOP "semop" 65 193;
    SEMTIMEDOP "semtimedop" 220 192;
    SENDFILE "sendfile" 40 71;
    SENDMMSG "sendmmsg" 307 269;
    SENDMSG "sendmsg" 46 211;
    SENDTO "sendto" 44 206;
    SET_MEMPOLICY "set_mempolicy" 238 237;
    SET_MEMPOLICY_HOME_NODE "set_mempolicy_home_node" 450 450;
    SET_ROBUST_LIST "set_robust_list" 273 99;
    SET_THREAD_AREA "set_thread_area" 205 -1;
    SET_TID_ADDRESS "set_tid_address" 218 96;
    SETDOMAINNAME "setdomainname" 171 162;
    SETFSGID "setfsgid" 123 152;
    SETFSUID "setfsuid" 122 151;
    SETGID "setgid" 106 144;
    SETGROUPS "setgroups" 116 159;
    SETHOSTNAME "sethostname" 170 161;
    SETITIMER "setitimer" 38 103;
    SETNS "setns" 308 268;
    SETPGID "setpgid" 109 154;
    SETPRIORITY "setpriority" 141 140;
    SETREGID "setregid" 114 143;
    SETRESGID "setresgid" 119 149;
    SETRESUID "setresuid" 117 147;
    SETREUID "setreuid" 113 145;
    SETRLIMIT "setrlimit" 160 164;
    SETSID "setsid" 112 157;
    SETSOCKOPT "setsockopt" 54 208;
    SETTIMEOFDAY "settimeofday" 164 170;
    SETUID "setuid" 105 146;
    SETXATTR "setxattr" 188 5;
    SETXATTRAT "setxattrat" 463 463;
    SHMAT "shmat" 30 196;
    SHMCTL "shmctl" 31 195;
    SHMDT "shmdt" 67 197;
    SHMGET "shmget" 29 194;
    SHUTDOWN "shutdown" 48 210;
    SIGALTSTACK "sigaltstack" 131 132;
    SIGNALFD "signalfd" 282 -1;
    SIGNALFD4 "signalfd4" 289 74;
    SOCKET "socket" 41 198;
    SOCKETPAIR "socketpair" 53 199;
    SPLICE "splice" 275 76;
    STAT "stat" 4 -1;
    STATFS "statfs" 137 43;
    STATMOUNT "statmount" 457 457;
    STATX "statx" 332 291;
    SWAPOFF "swapoff" 168 225;
    SWAPON "swapon" 167 224;
    SYMLINK "symlink" 88 -1;
    SYMLINKAT "symlinkat" 266 36;
    SYNC "sync" 162 81;
    SYNC_FILE_RANGE "sync_file_range" 277 84;
    SYNCFS "syncfs" 306 267;
    SYSCTL "_sysctl" 156 -1;
    SYSFS "sysfs" 139 -1;
    SYSINFO "sysinfo" 99 179;
    SYSLOG "syslog" 103 116;
    TEE "tee" 276 77;
    TGKILL "tgkill" 234 131;
    TIME "time" 201 -1;
    TIMER_CREATE "timer_create" 222 107;
    TIMER_DELETE "timer_delete" 226 111;
    TIMER_GETOVERRUN "timer_getoverrun" 225 109;
    TIMER_GETTIME "timer_gettime" 224 108;
    TIMER_SETTIME "timer_settime" 223 110;
    TIMERFD_CREATE "timerfd_create" 283 85;
    TIMERFD_GETTIME "timerfd_gettime" 287 87;
    TIMERFD_SETTIME "timerfd_settime" 286 86;
    TIMES "times" 100 153;
    TKILL "tkill" 200 130;
    TRUNCATE "truncate" 76 45;
    TUXCALL "tuxcall" 184 -1;
    UMASK "umask" 95 166;
    UMOUNT2 "umount2" 166 39;
    UNAME "uname" 63 160;
    UNLINK "unlink" 87 -1;
    UNLINKAT "unlinkat" 263 35;
    UNSHARE "unshare" 272 97;
    UPROBE "uprobe" 336 -1;
    URETPROBE "uretprobe" 335 -1;
    USELIB "uselib" 134 -1;
    USERFAULTFD "userfaultfd" 323 282;
    USTAT "ustat" 136 -1;
    UTIME "utime" 132 -1;
    UTIMENSAT "utimensat" 280 88;
    UTIMES "utimes" 235 -1;
    VFORK "vfork" 58 -1;
    VHANGUP "vhangup" 153 58;
    VMSPLICE "vmsplice" 278 75;
    VSERVER "vserver" 236 -1;
    WAIT4 "wait4" 61 260;
    WAITID "waitid" 247 95;
    WRITE "write" 1 64;
    WRITEV "writev" 20 66;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::{Need, skip};

    /// Names of the generic header that aarch64 does not have: of 32-bit architectures, and none at all.
    const ELSEWHERE: [&str; 3] = ["arch_specific_syscall", "syscalls", "sync_file_range2"];

    /// The calls that a header of the system defines, by name and number. `prefixes` come before the name.
    fn in_header(text: &str, prefixes: &[&str]) -> Vec<(String, i64)> {
        let call = |line: &str| {
            let mut words = line.strip_prefix("#define ")?.split_whitespace();
            let name = words.next()?;
            let name = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
            Some((name.replace("fstatat", "newfstatat").replace("newnew", "new"), words.next()?.parse().ok()?))
        };
        text.lines().filter_map(call).collect()
    }

    fn header(path: &str) -> String {
        let missing = |_: &std::io::Error| skip(Need::Kernel, &format!("there is no {path}"));
        std::fs::read_to_string(path).inspect_err(missing).unwrap_or_default()
    }

    #[test]
    fn every_call_of_the_systems_headers_has_its_number_here() {
        let x86_64 = in_header(&header("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), &["__NR_"]);
        let generic = in_header(&header("/usr/include/asm-generic/unistd.h"), &["__NR_", "__NR3264_"]);
        // Those with times of 64 bits for architectures of 32.
        let aarch64 = generic.into_iter().filter(|it| !(403..424).contains(&it.1) && !ELSEWHERE.contains(&&*it.0));
        let known = |name: &str| ALL.iter().find(|it| it.0 == name).map_or((ABSENT, ABSENT), |it| (it.1, it.2));
        for (name, number) in x86_64.into_iter().filter(|it| it.1 < i64::from(UNREVIEWED)) {
            assert_eq!(known(&name).0, number, "{name} of x86_64");
        }
        for (name, number) in aarch64.filter(|it| it.1 < i64::from(UNREVIEWED)) {
            assert_eq!(known(&name).1, number, "{name} of aarch64");
        }
    }

    #[test]
    fn no_number_is_that_of_two_calls_or_of_a_call_that_was_not_reviewed() {
        for numbers in [ALL.iter().map(|it| it.1).collect::<Vec<_>>(), ALL.iter().map(|it| it.2).collect()] {
            let mut numbers: Vec<_> = numbers.into_iter().filter(|it| *it != ABSENT).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all);
            assert!(numbers.iter().all(|it| (0..i64::from(UNREVIEWED)).contains(it)));
        }
    }
}
