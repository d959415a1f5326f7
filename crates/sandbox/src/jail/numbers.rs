//! The numbers of system calls, for the filters: all calls of x86_64 and aarch64, up to the newest that was
//! reviewed. From 424 on, the numbers are the same on all architectures. A call is [`ABSENT`] on an architecture
//! that does not have it.

/// The lowest number that was not reviewed and belongs to a newer kernel. All calls of the x32 architecture also
/// have higher numbers.
pub(super) const UNREVIEWED: u32 = 470;

/// Marks a call that does not exist on this architecture.
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
    ($($name:ident $x86_64:literal $aarch64:literal;)*) => {
        $(pub(super) const $name: i64 = here($x86_64, $aarch64);)*

        /// All calls with both numbers, for comparison with the system's headers and with the groups.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, i64, i64)] = &[$((stringify!($name), $x86_64, $aarch64)),*];
    };
}

// Name, number on x86_64, number on aarch64.
numbers! {
    ACCEPT 43 202;  ACCEPT4 288 242;  ACCESS 21 -1;  ACCT 163 89;  ADD_KEY 248 217;  ADJTIMEX 159 171;
    AFS_SYSCALL 183 -1;  ALARM 37 -1;  ARCH_PRCTL 158 -1;  BIND 49 200;  BPF 321 280;  BRK 12 214;  CACHESTAT 451 451;
    CAPGET 125 90;  CAPSET 126 91;  CHDIR 80 49;  CHMOD 90 -1;  CHOWN 92 -1;  CHROOT 161 51;  CLOCK_ADJTIME 305 266;
    CLOCK_GETRES 229 114;  CLOCK_GETTIME 228 113;  CLOCK_NANOSLEEP 230 115;  CLOCK_SETTIME 227 112;  CLONE 56 220;
    CLONE3 435 435;  CLOSE 3 57;  CLOSE_RANGE 436 436;  CONNECT 42 203;  COPY_FILE_RANGE 326 285;  CREAT 85 -1;
    CREATE_MODULE 174 -1;  DELETE_MODULE 176 106;  DUP 32 23;  DUP2 33 -1;  DUP3 292 24;  EPOLL_CREATE 213 -1;
    EPOLL_CREATE1 291 20;  EPOLL_CTL 233 21;  EPOLL_CTL_OLD 214 -1;  EPOLL_PWAIT 281 22;  EPOLL_PWAIT2 441 441;
    EPOLL_WAIT 232 -1;  EPOLL_WAIT_OLD 215 -1;  EVENTFD 284 -1;  EVENTFD2 290 19;  EXECVE 59 221;  EXECVEAT 322 281;
    EXIT 60 93;  EXIT_GROUP 231 94;  FACCESSAT 269 48;  FACCESSAT2 439 439;  FADVISE64 221 223;  FALLOCATE 285 47;
    FANOTIFY_INIT 300 262;  FANOTIFY_MARK 301 263;  FCHDIR 81 50;  FCHMOD 91 52;  FCHMODAT 268 53;  FCHMODAT2 452 452;
    FCHOWN 93 55;  FCHOWNAT 260 54;  FCNTL 72 25;  FDATASYNC 75 83;  FGETXATTR 193 10;  FILE_GETATTR 468 468;
    FILE_SETATTR 469 469;  FINIT_MODULE 313 273;  FLISTXATTR 196 13;  FLOCK 73 32;  FORK 57 -1;  FREMOVEXATTR 199 16;
    FSCONFIG 431 431;  FSETXATTR 190 7;  FSMOUNT 432 432;  FSOPEN 430 430;  FSPICK 433 433;  FSTAT 5 80;
    FSTATFS 138 44;  FSYNC 74 82;  FTRUNCATE 77 46;  FUTEX 202 98;  FUTEX_REQUEUE 456 456;  FUTEX_WAIT 455 455;
    FUTEX_WAITV 449 449;  FUTEX_WAKE 454 454;  FUTIMESAT 261 -1;  GET_KERNEL_SYMS 177 -1;  GET_MEMPOLICY 239 236;
    GET_ROBUST_LIST 274 100;  GET_THREAD_AREA 211 -1;  GETCPU 309 168;  GETCWD 79 17;  GETDENTS 78 -1;
    GETDENTS64 217 61;  GETEGID 108 177;  GETEUID 107 175;  GETGID 104 176;  GETGROUPS 115 158;  GETITIMER 36 102;
    GETPEERNAME 52 205;  GETPGID 121 155;  GETPGRP 111 -1;  GETPID 39 172;  GETPMSG 181 -1;  GETPPID 110 173;
    GETPRIORITY 140 141;  GETRANDOM 318 278;  GETRESGID 120 150;  GETRESUID 118 148;  GETRLIMIT 97 163;
    GETRUSAGE 98 165;  GETSID 124 156;  GETSOCKNAME 51 204;  GETSOCKOPT 55 209;  GETTID 186 178;  GETTIMEOFDAY 96 169;
    GETUID 102 174;  GETXATTR 191 8;  GETXATTRAT 464 464;  INIT_MODULE 175 105;  INOTIFY_ADD_WATCH 254 27;
    INOTIFY_INIT 253 -1;  INOTIFY_INIT1 294 26;  INOTIFY_RM_WATCH 255 28;  IO_CANCEL 210 3;  IO_DESTROY 207 1;
    IO_GETEVENTS 208 4;  IO_PGETEVENTS 333 292;  IO_SETUP 206 0;  IO_SUBMIT 209 2;  IO_URING_ENTER 426 426;
    IO_URING_REGISTER 427 427;  IO_URING_SETUP 425 425;  IOCTL 16 29;  IOPERM 173 -1;  IOPL 172 -1;  IOPRIO_GET 252 31;
    IOPRIO_SET 251 30;  KCMP 312 272;  KEXEC_FILE_LOAD 320 294;  KEXEC_LOAD 246 104;  KEYCTL 250 219;  KILL 62 129;
    LANDLOCK_ADD_RULE 445 445;  LANDLOCK_CREATE_RULESET 444 444;  LANDLOCK_RESTRICT_SELF 446 446;  LCHOWN 94 -1;
    LGETXATTR 192 9;  LINK 86 -1;  LINKAT 265 37;  LISTEN 50 201;  LISTMOUNT 458 458;  LISTXATTR 194 11;
    LISTXATTRAT 465 465;  LLISTXATTR 195 12;  LOOKUP_DCOOKIE 212 18;  LREMOVEXATTR 198 15;  LSEEK 8 62;
    LSETXATTR 189 6;  LSM_GET_SELF_ATTR 459 459;  LSM_LIST_MODULES 461 461;  LSM_SET_SELF_ATTR 460 460;  LSTAT 6 -1;
    MADVISE 28 233;  MAP_SHADOW_STACK 453 453;  MBIND 237 235;  MEMBARRIER 324 283;  MEMFD_CREATE 319 279;
    MEMFD_SECRET 447 447;  MIGRATE_PAGES 256 238;  MINCORE 27 232;  MKDIR 83 -1;  MKDIRAT 258 34;  MKNOD 133 -1;
    MKNODAT 259 33;  MLOCK 149 228;  MLOCK2 325 284;  MLOCKALL 151 230;  MMAP 9 222;  MODIFY_LDT 154 -1;  MOUNT 165 40;
    MOUNT_SETATTR 442 442;  MOVE_MOUNT 429 429;  MOVE_PAGES 279 239;  MPROTECT 10 226;  MQ_GETSETATTR 245 185;
    MQ_NOTIFY 244 184;  MQ_OPEN 240 180;  MQ_TIMEDRECEIVE 243 183;  MQ_TIMEDSEND 242 182;  MQ_UNLINK 241 181;
    MREMAP 25 216;  MSEAL 462 462;  MSGCTL 71 187;  MSGGET 68 186;  MSGRCV 70 188;  MSGSND 69 189;  MSYNC 26 227;
    MUNLOCK 150 229;  MUNLOCKALL 152 231;  MUNMAP 11 215;  NAME_TO_HANDLE_AT 303 264;  NANOSLEEP 35 101;
    NEWFSTATAT 262 79;  NFSSERVCTL 180 42;  OPEN 2 -1;  OPEN_BY_HANDLE_AT 304 265;  OPEN_TREE 428 428;
    OPEN_TREE_ATTR 467 467;  OPENAT 257 56;  OPENAT2 437 437;  PAUSE 34 -1;  PERF_EVENT_OPEN 298 241;
    PERSONALITY 135 92;  PIDFD_GETFD 438 438;  PIDFD_OPEN 434 434;  PIDFD_SEND_SIGNAL 424 424;  PIPE 22 -1;
    PIPE2 293 59;  PIVOT_ROOT 155 41;  PKEY_ALLOC 330 289;  PKEY_FREE 331 290;  PKEY_MPROTECT 329 288;  POLL 7 -1;
    PPOLL 271 73;  PRCTL 157 167;  PREAD64 17 67;  PREADV 295 69;  PREADV2 327 286;  PRLIMIT64 302 261;
    PROCESS_MADVISE 440 440;  PROCESS_MRELEASE 448 448;  PROCESS_VM_READV 310 270;  PROCESS_VM_WRITEV 311 271;
    PSELECT6 270 72;  PTRACE 101 117;  PUTPMSG 182 -1;  PWRITE64 18 68;  PWRITEV 296 70;  PWRITEV2 328 287;
    QUERY_MODULE 178 -1;  QUOTACTL 179 60;  QUOTACTL_FD 443 443;  READ 0 63;  READAHEAD 187 213;  READLINK 89 -1;
    READLINKAT 267 78;  READV 19 65;  REBOOT 169 142;  RECVFROM 45 207;  RECVMMSG 299 243;  RECVMSG 47 212;
    REMAP_FILE_PAGES 216 234;  REMOVEXATTR 197 14;  REMOVEXATTRAT 466 466;  RENAME 82 -1;  RENAMEAT 264 38;
    RENAMEAT2 316 276;  REQUEST_KEY 249 218;  RESTART_SYSCALL 219 128;  RMDIR 84 -1;  RSEQ 334 293;
    RT_SIGACTION 13 134;  RT_SIGPENDING 127 136;  RT_SIGPROCMASK 14 135;  RT_SIGQUEUEINFO 129 138;
    RT_SIGRETURN 15 139;  RT_SIGSUSPEND 130 133;  RT_SIGTIMEDWAIT 128 137;  RT_TGSIGQUEUEINFO 297 240;
    SCHED_GET_PRIORITY_MAX 146 125;  SCHED_GET_PRIORITY_MIN 147 126;  SCHED_GETAFFINITY 204 123;
    SCHED_GETATTR 315 275;  SCHED_GETPARAM 143 121;  SCHED_GETSCHEDULER 145 120;  SCHED_RR_GET_INTERVAL 148 127;
    SCHED_SETAFFINITY 203 122;  SCHED_SETATTR 314 274;  SCHED_SETPARAM 142 118;  SCHED_SETSCHEDULER 144 119;
    SCHED_YIELD 24 124;  SECCOMP 317 277;  SECURITY 185 -1;  SELECT 23 -1;  SEMCTL 66 191;  SEMGET 64 190;
    SEMOP 65 193;  SEMTIMEDOP 220 192;  SENDFILE 40 71;  SENDMMSG 307 269;  SENDMSG 46 211;  SENDTO 44 206;
    SET_MEMPOLICY 238 237;  SET_MEMPOLICY_HOME_NODE 450 450;  SET_ROBUST_LIST 273 99;  SET_THREAD_AREA 205 -1;
    SET_TID_ADDRESS 218 96;  SETDOMAINNAME 171 162;  SETFSGID 123 152;  SETFSUID 122 151;  SETGID 106 144;
    SETGROUPS 116 159;  SETHOSTNAME 170 161;  SETITIMER 38 103;  SETNS 308 268;  SETPGID 109 154;  SETPRIORITY 141 140;
    SETREGID 114 143;  SETRESGID 119 149;  SETRESUID 117 147;  SETREUID 113 145;  SETRLIMIT 160 164;  SETSID 112 157;
    SETSOCKOPT 54 208;  SETTIMEOFDAY 164 170;  SETUID 105 146;  SETXATTR 188 5;  SETXATTRAT 463 463;  SHMAT 30 196;
    SHMCTL 31 195;  SHMDT 67 197;  SHMGET 29 194;  SHUTDOWN 48 210;  SIGALTSTACK 131 132;  SIGNALFD 282 -1;
    SIGNALFD4 289 74;  SOCKET 41 198;  SOCKETPAIR 53 199;  SPLICE 275 76;  STAT 4 -1;  STATFS 137 43;
    STATMOUNT 457 457;  STATX 332 291;  SWAPOFF 168 225;  SWAPON 167 224;  SYMLINK 88 -1;  SYMLINKAT 266 36;
    SYNC 162 81;  SYNC_FILE_RANGE 277 84;  SYNCFS 306 267;  SYSCTL 156 -1;  SYSFS 139 -1;  SYSINFO 99 179;
    SYSLOG 103 116;  TEE 276 77;  TGKILL 234 131;  TIME 201 -1;  TIMER_CREATE 222 107;  TIMER_DELETE 226 111;
    TIMER_GETOVERRUN 225 109;  TIMER_GETTIME 224 108;  TIMER_SETTIME 223 110;  TIMERFD_CREATE 283 85;
    TIMERFD_GETTIME 287 87;  TIMERFD_SETTIME 286 86;  TIMES 100 153;  TKILL 200 130;  TRUNCATE 76 45;  TUXCALL 184 -1;
    UMASK 95 166;  UMOUNT2 166 39;  UNAME 63 160;  UNLINK 87 -1;  UNLINKAT 263 35;  UNSHARE 272 97;  UPROBE 336 -1;
    URETPROBE 335 -1;  USELIB 134 -1;  USERFAULTFD 323 282;  USTAT 136 -1;  UTIME 132 -1;  UTIMENSAT 280 88;
    UTIMES 235 -1;  VFORK 58 -1;  VHANGUP 153 58;  VMSPLICE 278 75;  VSERVER 236 -1;  WAIT4 61 260;  WAITID 247 95;
    WRITE 1 64;  WRITEV 20 66;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::{Need, skip};

    /// Names in the generic header that aarch64 does not use: calls of 32-bit architectures, and names that are
    /// not calls.
    const ELSEWHERE: [&str; 3] = ["arch_specific_syscall", "syscalls", "sync_file_range2"];

    /// Parses the calls that a system header defines, by name and number. Removes `prefixes` from the names.
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
        // These calls have 64-bit times and exist only on 32-bit architectures.
        let aarch64 = generic.into_iter().filter(|it| !(403..424).contains(&it.1) && !ELSEWHERE.contains(&&*it.0));
        let name_here = |name: &str| name.trim_start_matches('_').to_uppercase();
        let known =
            |name: &str| ALL.iter().find(|it| it.0 == name_here(name)).map_or((ABSENT, ABSENT), |it| (it.1, it.2));
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
