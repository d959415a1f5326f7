//! The system files that a process needs. They are visible in its own root ([`view`](super::view)) and allowed by
//! the Landlock rules ([`files`](super::files)).

/// The folder below which `/proc` is mounted.
pub(super) const KERNEL: &str = "/kernel";

/// The folder below which the temporary folder is mounted.
pub(super) const PRIVATE: &str = "/private";

/// The system paths that all programs need to read and execute. Missing paths are skipped.
pub(super) const PROGRAMS: [&str; 9] =
    ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store", "/etc/alternatives"];

/// Returns the paths of the settings that programs read, and whether each is a folder. None of them contains secrets.
pub(super) fn settings() -> impl Iterator<Item = (&'static str, bool)> {
    include_str!("settings.txt").lines().map(|it| it.strip_suffix('/').map_or((it, false), |folder| (folder, true)))
}

pub(super) const READ_DEVICES: [&str; 2] = ["/dev/random", "/dev/urandom"];
pub(super) const WRITE_DEVICES: [&str; 3] = ["/dev/null", ZERO, "/dev/full"];

/// All devices that a process may use.
pub(super) const DEVICES: [&str; 5] = ["/dev/random", "/dev/urandom", "/dev/null", ZERO, "/dev/full"];

/// A shared mapping of this device is memory that is not charged to any process.
pub(super) const ZERO: &str = "/dev/zero";

/// The paths that are readable in the process's own root, where `/etc` contains only settings.
pub(super) const OWN_SETTINGS: &[&str] = &["/etc", KERNEL, "/sys/devices/system/cpu"];
