//! The system files that a process needs. They are visible in its own root ([`view`](super::view)) and allowed by
//! the Landlock rules ([`files`](super::files)).

/// The folder below which `/proc` is mounted.
pub(super) const KERNEL: &str = "/kernel";

/// The folder below which the temporary folder is mounted.
pub(super) const PRIVATE: &str = "/private";

/// The system paths that all programs need to read and execute. Missing paths are skipped.
pub(super) const PROGRAMS: [&str; 9] =
    ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store", "/etc/alternatives"];

/// The settings that programs read. None of them contains secrets.
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

/// A shared mapping of this device is memory that is not charged to any process.
pub(super) const ZERO: &str = "/dev/zero";

/// The paths that are readable in the process's own root, where `/etc` contains only settings.
pub(super) const OWN_SETTINGS: &[&str] = &["/etc", KERNEL, "/sys/devices/system/cpu"];
