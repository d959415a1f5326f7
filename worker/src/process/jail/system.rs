//! What of the system a process needs: shown in a root of its own ([`view`](super::view)), allowed by the rules for files
//! ([`files`](super::files)).

/// The folder below which `/proc` is mounted.
pub(super) const KERNEL: &str = "/kernel";

/// The folder below which the temporary folder is mounted.
pub(super) const PRIVATE: &str = "/private";

/// What every program needs of the system, to read and to start. What is not there is passed over.
pub(super) const PROGRAMS: [&str; 9] =
    ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store", "/etc/alternatives"];

/// To read: settings that programs look up, none of them a secret.
pub(super) const SETTINGS: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/passwd",
    "/etc/group",
    "/etc/os-release",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/python3",
    "/proc",
    "/sys/devices/system/cpu",
];

pub(super) const READ_DEVICES: [&str; 2] = ["/dev/random", "/dev/urandom"];
pub(super) const WRITE_DEVICES: [&str; 3] = ["/dev/null", ZERO, "/dev/full"];

/// All devices that a process may use.
pub(super) const DEVICES: [&str; 5] = ["/dev/random", "/dev/urandom", "/dev/null", ZERO, "/dev/full"];

/// A shared mapping of it is memory that belongs to no process.
pub(super) const ZERO: &str = "/dev/zero";

/// To read in a root of its own, where `/etc` holds nothing but settings.
pub(super) const OWN_SETTINGS: &[&str] = &["/etc", KERNEL, "/sys/devices/system/cpu"];
