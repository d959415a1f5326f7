//! Numbers of system calls, which the filters know them by: those of x86_64 and of aarch64. From 424 on they are the same
//! everywhere. A call that an architecture does not have is [`ABSENT`] there.

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

        /// All of them, for comparing with the system's headers.
        #[cfg(test)]
        const ALL: &[(&str, i64, i64)] = &[$(($name, $x86_64, $aarch64)),*];
    };
}

numbers! {
    ACCEPT "accept" 43 202;
    ACCEPT4 "accept4" 288 242;
    ACCT "acct" 163 89;
    ADD_KEY "add_key" 248 217;
    ADJTIMEX "adjtimex" 159 171;
    BPF "bpf" 321 280;
    CHMOD "chmod" 90 -1;
    CHOWN "chown" 92 -1;
    CHROOT "chroot" 161 51;
    CLOCK_ADJTIME "clock_adjtime" 305 266;
    CLOCK_SETTIME "clock_settime" 227 112;
    CLONE "clone" 56 220;
    CLONE3 "clone3" 435 435;
    CREAT "creat" 85 -1;
    DELETE_MODULE "delete_module" 176 106;
    FANOTIFY_INIT "fanotify_init" 300 262;
    FANOTIFY_MARK "fanotify_mark" 301 263;
    FCHMOD "fchmod" 91 52;
    FCHMODAT "fchmodat" 268 53;
    FCHMODAT2 "fchmodat2" 452 452;
    FCHOWN "fchown" 93 55;
    FCHOWNAT "fchownat" 260 54;
    FCNTL "fcntl" 72 25;
    FGETXATTR "fgetxattr" 193 10;
    FILE_SETATTR "file_setattr" 469 469;
    FINIT_MODULE "finit_module" 313 273;
    FREMOVEXATTR "fremovexattr" 199 16;
    FSCONFIG "fsconfig" 431 431;
    FSETXATTR "fsetxattr" 190 7;
    FSMOUNT "fsmount" 432 432;
    FSOPEN "fsopen" 430 430;
    FSPICK "fspick" 433 433;
    FUTIMESAT "futimesat" 261 -1;
    GETXATTR "getxattr" 191 8;
    GETXATTRAT "getxattrat" 464 464;
    INIT_MODULE "init_module" 175 105;
    INOTIFY_ADD_WATCH "inotify_add_watch" 254 27;
    IOCTL "ioctl" 16 29;
    IOPERM "ioperm" 173 -1;
    IOPL "iopl" 172 -1;
    IOPRIO_SET "ioprio_set" 251 30;
    IO_URING_ENTER "io_uring_enter" 426 426;
    IO_URING_REGISTER "io_uring_register" 427 427;
    IO_URING_SETUP "io_uring_setup" 425 425;
    KCMP "kcmp" 312 272;
    KEXEC_FILE_LOAD "kexec_file_load" 320 294;
    KEXEC_LOAD "kexec_load" 246 104;
    KEYCTL "keyctl" 250 219;
    LCHOWN "lchown" 94 -1;
    LGETXATTR "lgetxattr" 192 9;
    LISTEN "listen" 50 201;
    LREMOVEXATTR "lremovexattr" 198 15;
    LSETXATTR "lsetxattr" 189 6;
    MEMFD_CREATE "memfd_create" 319 279;
    MEMFD_SECRET "memfd_secret" 447 447;
    MIGRATE_PAGES "migrate_pages" 256 238;
    MKNOD "mknod" 133 -1;
    MKNODAT "mknodat" 259 33;
    MMAP "mmap" 9 222;
    MODIFY_LDT "modify_ldt" 154 -1;
    MOUNT "mount" 165 40;
    MOUNT_SETATTR "mount_setattr" 442 442;
    MOVE_MOUNT "move_mount" 429 429;
    MOVE_PAGES "move_pages" 279 239;
    MQ_OPEN "mq_open" 240 180;
    MSGGET "msgget" 68 186;
    NAME_TO_HANDLE_AT "name_to_handle_at" 303 264;
    OPEN "open" 2 -1;
    OPENAT "openat" 257 56;
    OPENAT2 "openat2" 437 437;
    OPEN_BY_HANDLE_AT "open_by_handle_at" 304 265;
    OPEN_TREE "open_tree" 428 428;
    OPEN_TREE_ATTR "open_tree_attr" 467 467;
    PERF_EVENT_OPEN "perf_event_open" 298 241;
    PERSONALITY "personality" 135 92;
    PIDFD_GETFD "pidfd_getfd" 438 438;
    PIVOT_ROOT "pivot_root" 155 41;
    PRCTL "prctl" 157 167;
    PRLIMIT64 "prlimit64" 302 261;
    PROCESS_MADVISE "process_madvise" 440 440;
    PROCESS_MRELEASE "process_mrelease" 448 448;
    PROCESS_VM_READV "process_vm_readv" 310 270;
    PROCESS_VM_WRITEV "process_vm_writev" 311 271;
    PTRACE "ptrace" 101 117;
    QUOTACTL "quotactl" 179 60;
    QUOTACTL_FD "quotactl_fd" 443 443;
    REBOOT "reboot" 169 142;
    REMOVEXATTR "removexattr" 197 14;
    REMOVEXATTRAT "removexattrat" 466 466;
    REQUEST_KEY "request_key" 249 218;
    SCHED_SETAFFINITY "sched_setaffinity" 203 122;
    SCHED_SETATTR "sched_setattr" 314 274;
    SCHED_SETPARAM "sched_setparam" 142 118;
    SCHED_SETSCHEDULER "sched_setscheduler" 144 119;
    SEMGET "semget" 64 190;
    SENDMMSG "sendmmsg" 307 269;
    SENDMSG "sendmsg" 46 211;
    SENDTO "sendto" 44 206;
    SETDOMAINNAME "setdomainname" 171 162;
    SETHOSTNAME "sethostname" 170 161;
    SETNS "setns" 308 268;
    SETPRIORITY "setpriority" 141 140;
    SETSOCKOPT "setsockopt" 54 208;
    SETTIMEOFDAY "settimeofday" 164 170;
    SETXATTR "setxattr" 188 5;
    SETXATTRAT "setxattrat" 463 463;
    SHMGET "shmget" 29 194;
    SOCKET "socket" 41 198;
    SOCKETPAIR "socketpair" 53 199;
    SWAPOFF "swapoff" 168 225;
    SWAPON "swapon" 167 224;
    SYSLOG "syslog" 103 116;
    UMOUNT2 "umount2" 166 39;
    UNSHARE "unshare" 272 97;
    USERFAULTFD "userfaultfd" 323 282;
    UTIME "utime" 132 -1;
    UTIMENSAT "utimensat" 280 88;
    UTIMES "utimes" 235 -1;
    VHANGUP "vhangup" 153 58;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::{Need, skip};

    /// What a header of the system says, if the header is there and knows the call.
    fn in_header(text: &str, name: &str) -> Option<i64> {
        let defines = [format!("#define __NR_{name} "), format!("#define __NR3264_{name} ")];
        let line = text.lines().find(|line| defines.iter().any(|it| line.starts_with(it)))?;
        line.split_whitespace().nth(2)?.parse().ok()
    }

    #[test]
    fn the_numbers_are_those_of_the_systems_headers() {
        let headers =
            ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"].map(|path| {
                std::fs::read_to_string(path)
                    .inspect_err(|_| skip(Need::Kernel, &format!("there is no {path}")))
                    .unwrap_or_default()
            });
        for (name, x86_64, aarch64) in ALL {
            for (text, number) in headers.iter().zip([x86_64, aarch64]) {
                assert!(in_header(text, name).is_none_or(|it| it == *number), "{name}: {number}");
            }
        }
    }
}
