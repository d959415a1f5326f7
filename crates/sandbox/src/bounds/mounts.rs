//! Finds this process's control groups, using only what the kernel reports about this process.
//!
//! `/proc/self/cgroup` names the group in each hierarchy. `/proc/self/mountinfo` names the mounted part of each
//! hierarchy and its mount point (cgroups(7), proc_pid_mountinfo(5)). A container may see only a part.

use std::io;
use std::path::{Component, Path, PathBuf};

/// The kernel's reports about this process.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) cgroup: String,
    pub(super) mountinfo: String,
}

impl Sources {
    pub(super) fn read() -> io::Result<Self> {
        let read = |file| std::fs::read_to_string(Path::new("/proc/self").join(file));
        Ok(Self { cgroup: read("cgroup")?, mountinfo: read("mountinfo")? })
    }

    /// Returns the possible folders of this process's v2 group. Empty if v2 is not mounted or the group is outside
    /// the mounted part.
    pub(super) fn v2(&self) -> Vec<PathBuf> {
        let own = groups(&self.cgroup).find(|(controllers, _)| controllers.is_empty());
        let mounts = mounts(&self.mountinfo).filter(|it| it.kind == "cgroup2");
        own.map(|(_, group)| mounts.filter_map(|it| it.folder(group)).collect()).unwrap_or_default()
    }

    /// Returns the possible folders of this process's group for a v1 controller.
    pub(super) fn v1(&self, controller: &str) -> Vec<PathBuf> {
        let has = |list: &str| list.split(',').any(|it| it == controller);
        let own = groups(&self.cgroup).find(|(controllers, _)| has(controllers));
        let mounts = mounts(&self.mountinfo).filter(|it| it.kind == "cgroup" && has(it.options));
        own.map(|(_, group)| mounts.filter_map(|it| it.folder(group)).collect()).unwrap_or_default()
    }
}

/// Parses the lines of `/proc/self/cgroup`: controllers, separated by commas, and the group. v2 lists no
/// controllers.
fn groups(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        Some((controllers, group))
    })
}

/// A line of mountinfo that mounts a cgroup hierarchy.
struct Mount<'a> {
    kind: &'a str,
    options: &'a str,
    /// The group that is mounted there.
    root: PathBuf,
    at: PathBuf,
}

impl Mount<'_> {
    /// Returns a group's folder, or `None` if it is outside the mounted part.
    fn folder(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(&self.root).ok()?;
        // A group above the namespace's root appears as `/..`.
        let is_below = below.components().all(|it| matches!(it, Component::Normal(_)));
        is_below.then(|| if below.as_os_str().is_empty() { self.at.clone() } else { self.at.join(below) })
    }
}

fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(|line| {
        // A hyphen follows the optional fields.
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut kind = kind.split(' ');
        let (root, at) = (path(place.next()?), path(place.next()?));
        Some(Mount { root, at, kind: kind.next()?, options: kind.nth(1).unwrap_or_default() })
    })
}

/// Parses a path as mountinfo writes it. Spaces, tabs, newlines and backslashes are escaped as `\` and three octal
/// digits. Backslashes come last, so that they begin no other escape.
fn path(text: &str) -> PathBuf {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(cgroup: &str, mountinfo: &str) -> Sources {
        Sources { cgroup: cgroup.to_owned(), mountinfo: mountinfo.to_owned() }
    }

    #[test]
    fn the_hierarchies_of_v1_are_where_mountinfo_says() {
        let it = sources(
            "8:pids:/\n4:memory:/agents/a:b\n3:cpu,cpuacct:/x\n0::/\n",
            "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
             39 31 0:36 / /odd\\040place/pids rw - cgroup cgroup rw,pids\n\
             40 31 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        assert_eq!(it.v1("memory"), [Path::new("/sys/fs/cgroup/memory/agents/a:b")]);
        assert_eq!(it.v1("pids"), [Path::new("/odd place/pids")]);
        assert_eq!(it.v1("cpuacct"), [Path::new("/sys/fs/cgroup/cpu/x")]);
        assert!(it.v1("freezer").is_empty() && it.v2().is_empty());
    }

    #[test]
    fn v2_is_where_its_mount_and_its_namespace_say() {
        let host = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let service = sources("0::/system.slice/openskill.service\n", host);
        assert_eq!(service.v2(), [Path::new("/sys/fs/cgroup/system.slice/openskill.service")]);
        let in_namespace = sources("0::/\n", host);
        assert_eq!(in_namespace.v2(), [Path::new("/sys/fs/cgroup")]);
        // Without a cgroup namespace, a container has a part of the host's hierarchy mounted.
        let part = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(sources("0::/docker/abc\n", part).v2(), [Path::new("/sys/fs/cgroup")]);
        assert_eq!(sources("0::/docker/abc/d\n", part).v2(), [Path::new("/sys/fs/cgroup/d")]);
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_nowhere() {
        let part = "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert!(sources("0::/docker/abcd\n", part).v2().is_empty());
        let host = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert!(sources("0::/../other\n", host).v2().is_empty());
        assert!(sources("nonsense\n", "nonsense\n").v2().is_empty());
    }
}
