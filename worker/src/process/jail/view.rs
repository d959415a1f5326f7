//! What a jailed process sees of the file system: a root of its own in a mount namespace of its own.
//!
//! | path | content |
//! |---|---|
//! | `/usr`, `/bin`, `/lib*`, ... | the system's programs, read-only |
//! | `/etc` | copies of the settings that programs look up |
//! | `/dev` | `null`, `zero`, `full`, `random`, `urandom`; `shm` is the temporary folder |
//! | `/proc` | the processes of this namespace; read-only but for a fork server |
//! | `/private/tmp` | the temporary folder: in memory, with a bounded size, gone with the namespace; `/tmp` too, if no path that the plan names is below it |
//! | the paths that the plan names | at the same paths as outside: read-only, or writable |
//!
//! `/proc` and `/tmp` are links into [`KERNEL`] and [`PRIVATE`]. A rule of Landlock for a folder holds for what is mounted
//! below it, so that a rule made once covers the mounts that each call of a fork server makes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{chdir, fchdir, pivot_root, umask};

use super::identity::User;
use super::mount::{self, PLAIN};
use super::system::{DEVICES, KERNEL, PRIVATE, PROGRAMS, SETTINGS};
use crate::allowed_root::open_place;

/// Where the temporary folder is mounted.
pub(super) const TEMP: &str = "/private/tmp";

/// What the new root covers until it is the root. No path of a skill is below it.
const STAGE: &str = "/proc";

/// Files and folders in the temporary folder.
const MOST_TEMP_FILES: u32 = 100_000;

/// The largest setting that is copied.
const MAX_SETTING_BYTES: u64 = 1024 * 1024;

/// Links on the way to a path.
const MOST_LINKS: usize = 40;

/// What a process is to see beside the system.
pub(super) struct View<'a> {
    /// Read-only: absolute, without links.
    pub(super) readable: &'a [PathBuf],
    /// Writable: the same.
    pub(super) writable: &'a [PathBuf],
    /// The allowed root, writable, and its path.
    pub(super) root: Option<(BorrowedFd<'a>, &'a Path)>,
    /// The root comes as a mount that is not attached yet, and not as the folder.
    pub(super) root_is_mount: bool,
    /// Paths by which the process knows some of these, which may lead through links.
    pub(super) names: &'a [PathBuf],
    /// A user that the machine has no name for.
    pub(super) user: Option<User>,
    /// Whether the kernel counts memory that is mapped from `/dev/zero`.
    pub(super) zero: bool,
    /// Whether the process writes user mappings, of its children or its own.
    pub(super) writes_proc: bool,
    /// Mount options of the temporary folder.
    pub(super) temp: &'a TempOptions,
    /// Further settings, which are files below `/etc`, with their content.
    pub(super) settings: &'a [(PathBuf, String)],
}

/// The size and owner of a temporary folder in memory, as mount options.
pub(super) struct TempOptions {
    pairs: Vec<(&'static str, String)>,
}

impl TempOptions {
    /// `owner`: none is the calling user.
    pub(super) fn new(bytes: u64, owner: Option<User>) -> Self {
        let mut pairs =
            vec![("size", bytes.to_string()), ("nr_inodes", MOST_TEMP_FILES.to_string()), ("mode", "0700".to_owned())];
        if let Some(User { uid, gid }) = owner {
            pairs.extend([("uid", uid.to_string()), ("gid", gid.to_string())]);
        }
        Self { pairs }
    }

    /// As mount(2) takes them.
    pub(super) fn text(&self) -> String {
        self.pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    fn mount(&self) -> io::Result<OwnedFd> {
        let pairs: Vec<_> = self.pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        mount::new("tmpfs", &pairs, PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV)
    }
}

/// A mount that is not attached yet, and where it belongs.
struct Pending {
    path: PathBuf,
    mount: OwnedFd,
    is_folder: bool,
}

/// Replaces the root of the calling process, which has a mount namespace of its own, with this view.
///
/// # Errors
/// A path is missing, or the kernel does not allow it. The process is not to go on then.
pub(super) fn enter(view: &View<'_>) -> io::Result<()> {
    // Nothing that is mounted from here on shows elsewhere.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let content = Content::of_old_root(view)?;
    let options = [("size", "16m"), ("nr_inodes", "4096"), ("mode", "0755")];
    let root = mount::new("tmpfs", &options, PLAIN)?;
    mount::attach(&root, CWD, Path::new(STAGE))?;
    fchdir(&root)?;
    // The old root lands on the new one, and is then taken away with all below it (pivot_root(2)).
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    // Whatever the worker's own mask is, the user of the process has to find its way.
    let before = umask(Mode::from_raw_mode(0o022));
    // Only now: whatever a link in a folder of skills says, nothing is made in the old root.
    let filled = fill(&root, view, &content);
    umask(before);
    filled?;
    mount::freeze(Path::new("/"))
}

/// What is taken from the old root before it goes.
struct Content {
    /// Parents before what is below them.
    pending: Vec<Pending>,
    proc: OwnedFd,
    temp: OwnedFd,
    settings: Vec<(&'static str, Vec<u8>)>,
    /// Links, and what they hold.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Content {
    fn of_old_root(view: &View<'_>) -> io::Result<Self> {
        let mut attributes = PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, !view.writes_proc);
        let mut links = Vec::new();
        for path in PROGRAMS.iter().map(PathBuf::from).filter(|it| it.is_symlink()) {
            links.push((path.clone(), path.read_link()?));
        }
        for name in view.names {
            links_to(name, &mut links)?;
        }
        Ok(Self {
            pending: pending(view)?,
            // The kernel mounts another one only while one is to be seen.
            proc: mount::new("proc", &[], attributes)?,
            temp: view.temp.mount()?,
            settings: settings(),
            links,
        })
    }
}

/// Copies of all that is shown, parents before what is below them. Opened before the new root covers anything.
fn pending(view: &View<'_>) -> io::Result<Vec<Pending>> {
    let mut pending = Vec::new();
    let read_only = PLAIN | MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV;
    for path in PROGRAMS.iter().map(Path::new).filter(|it| it.is_dir() && !it.is_symlink()) {
        pending.push(copy_of(path, read_only)?);
    }
    for path in DEVICES.map(Path::new).iter().filter(|it| is_device(it) && (view.zero || !it.ends_with("zero"))) {
        pending.push(copy_of(path, PLAIN)?);
    }
    for path in FOLDERS_OF_SETTINGS.map(Path::new).iter().filter(|it| it.is_dir()) {
        pending.push(Pending { path: path.to_path_buf(), ..copy_of(path, read_only)? });
    }
    let writable = PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV;
    for path in view.writable {
        pending.push(copy_of_plain(path, writable)?);
    }
    if let Some((root, path)) = view.root {
        let mount = match view.root_is_mount {
            true => root.try_clone_to_owned()?,
            false => mount::copy(reopen(root, path)?, writable)?,
        };
        pending.push(Pending { path: path.to_owned(), mount, is_folder: true });
    }
    for path in view.readable {
        // What is shown already needs no mount of its own; below what is writable it stays writable.
        if !pending.iter().any(|it| path.starts_with(&it.path)) {
            pending.push(copy_of_plain(path, read_only)?);
        }
    }
    pending.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pending)
}

/// Settings that are folders: shown as they are.
const FOLDERS_OF_SETTINGS: [&str; 10] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.conf.d",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/python3",
    "/etc/ssl/certs",
    "/nix/store",
    "/sys/devices/system/cpu",
];

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.file_type().is_char_device())
}

fn copy_of(path: &Path, attributes: MountAttrFlags) -> io::Result<Pending> {
    copy_of_opened(path, openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, attributes)
}

/// The same for a path of the plan, which has no links: one that has come since then is not followed.
fn copy_of_plain(path: &Path, attributes: MountAttrFlags) -> io::Result<Pending> {
    copy_of_opened(path, open_place(path)?, attributes)
}

fn copy_of_opened(path: &Path, opened: OwnedFd, attributes: MountAttrFlags) -> io::Result<Pending> {
    let is_folder = is_folder(&opened)?;
    Ok(Pending { path: path.to_owned(), mount: mount::copy(opened, attributes)?, is_folder })
}

fn is_folder(opened: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode).is_dir())
}

/// The same folder, opened in this mount namespace: a mount can be copied only by a descriptor of its own namespace. The path
/// is only a hint where it is; the folder itself is compared.
fn reopen(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let (wanted, found) = (rustix::fs::fstat(folder)?, rustix::fs::fstat(&opened)?);
    if (wanted.st_dev, wanted.st_ino) == (found.st_dev, found.st_ino) {
        return Ok(opened);
    }
    Err(Errno::STALE.into())
}

/// Names for the user of the process, as programs look their own up.
fn names_of(user: User) -> [(&'static str, String); 2] {
    let User { uid, gid } = user;
    [
        ("/etc/passwd", format!("skill:x:{uid}:{gid}:skill:{TEMP}:/usr/sbin/nologin\n")),
        ("/etc/group", format!("skill:x:{gid}:\n")),
    ]
}

/// The settings that are files, with their content. What is not there, or too large, is left out.
fn settings() -> Vec<(&'static str, Vec<u8>)> {
    let read = |path: &&'static str| {
        let about = std::fs::metadata(path).ok().filter(|it| it.is_file() && it.len() <= MAX_SETTING_BYTES)?;
        let content = std::fs::read(path).ok()?;
        (about.len() <= MAX_SETTING_BYTES).then_some((*path, content))
    };
    SETTINGS.iter().filter(|it| it.starts_with("/etc/")).filter_map(read).collect()
}

/// Attaches and writes everything below the new root.
fn fill(root: &OwnedFd, view: &View<'_>, content: &Content) -> io::Result<()> {
    let Content { pending, proc, temp, settings, links } = content;
    for path in ["/dev", "/etc", "/var", KERNEL, "/kernel/proc", PRIVATE, TEMP] {
        folder(root, Path::new(path))?;
    }
    for (target, link) in [
        ("kernel/proc", "/proc"),
        ("../private/tmp", "/dev/shm"),
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
    ] {
        symlinkat(target, root, below(Path::new(link)))?;
    }
    for (target, alias) in [("private/tmp", "/tmp"), ("../private/tmp", "/var/tmp")] {
        // Below a link, each call of a fork server would cover what is shown there.
        if !pending.iter().any(|it| it.path.starts_with(alias)) && !view.names.iter().any(|it| it.starts_with(alias)) {
            symlinkat(target, root, below(Path::new(alias)))?;
        }
    }
    let copied = settings.iter().map(|(path, content)| (Path::new(path), content.as_slice()));
    let own = view.settings.iter().map(|(path, content)| (path.as_path(), content.as_bytes()));
    for (path, content) in copied.chain(own) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        if let Some(parent) = path.parent() {
            folder(root, parent)?;
        }
        let file = openat(root, below(path), flags, Mode::from_raw_mode(0o644))?;
        let mut file = std::fs::File::from(file);
        io::Write::write_all(&mut file, content)?;
        let own = view.user.map(names_of).into_iter().flatten().find(|(name, _)| Path::new(name) == path);
        if let Some((_, line)) = own {
            io::Write::write_all(&mut file, line.as_bytes())?;
        }
    }
    mount::attach(proc, root, Path::new("kernel/proc"))?;
    mount::attach(temp, root, Path::new("private/tmp"))?;
    for Pending { path, mount, is_folder } in pending {
        target(root, path, *is_folder)?;
        mount::attach(mount, root, below(path))?;
    }
    links.iter().try_for_each(|(path, target)| link(root, path, target))
}

/// A path relative to the root.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Makes a folder with all above it, where there is none.
fn folder(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = below(path);
    let above: Vec<&Path> = path.ancestors().filter(|it| !it.as_os_str().is_empty()).collect();
    for path in above.into_iter().rev() {
        match mkdirat(root, path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes what a mount is attached to, where there is nothing.
fn target(root: &OwnedFd, path: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        return folder(root, path);
    }
    if let Some(parent) = path.parent() {
        folder(root, parent)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match openat(root, below(path), flags, Mode::from_raw_mode(0o444)) {
        Ok(_) | Err(Errno::EXIST | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a link, where there is nothing.
fn link(root: &OwnedFd, path: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        folder(root, parent)?;
    }
    match symlinkat(target, root, below(path)) {
        Ok(()) | Err(Errno::EXIST | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Finds the links that lead from a name to what is shown: `/home/ada/python` where `/home` is a link.
fn links_to(name: &Path, found: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    let mut rest: Vec<PathBuf> = parts(name);
    let mut walked = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part.as_os_str() == ".." {
            walked.pop();
            continue;
        }
        walked.push(&part);
        let Ok(target) = std::fs::read_link(&walked) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        rest.extend(parts(&target));
        let is_absolute = target.is_absolute();
        found.push((walked.clone(), target));
        walked.pop();
        if is_absolute {
            walked = PathBuf::from("/");
        }
    }
    Ok(())
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = path.components().filter(|it| matches!(it, Component::Normal(_) | Component::ParentDir));
    let mut parts: Vec<PathBuf> = named.map(|it| PathBuf::from(it.as_os_str())).collect();
    parts.reverse();
    parts
}
