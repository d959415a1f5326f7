//! The file system as a jailed process sees it: its own root in its own mount namespace.
//!
//! | path | content |
//! |---|---|
//! | `/usr`, `/bin`, `/lib*`, ... | the system's programs, read-only |
//! | `/etc` | copies of the settings that programs look up |
//! | `/dev` | `null`, `zero`, `full`, `random`, `urandom`; `shm` is the temporary folder |
//! | `/proc` | the processes of this namespace; read-only but for a fork server |
//! | `/private/tmp` | the temporary folder: in memory, of limited size, gone with the namespace; also `/tmp`, if no path in the plan is below it |
//! | the paths in the plan | at the same paths as outside: read-only, or writable |
//!
//! `/proc` and `/tmp` are links into [`KERNEL`] and [`PRIVATE`]. A Landlock rule for a folder also applies to
//! mounts below it. So a rule that is made once covers the mounts that each call of a fork server creates.

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

/// The mount point of the temporary folder.
pub(super) const TEMP: &str = "/private/tmp";

/// The folder over which the new root is mounted until it becomes the root. No skill's path is below it.
const STAGE: &str = "/proc";

/// The maximum number of files and folders in the temporary folder.
const MOST_TEMP_FILES: u32 = 100_000;

/// The maximum size of a settings file that is copied, in bytes.
const MAX_SETTING_BYTES: u64 = 1024 * 1024;

/// The maximum number of links on the way to a path.
const MOST_LINKS: usize = 40;

/// The paths that a process sees in addition to the system's.
pub(super) struct FileSystemView<'a> {
    /// The read-only paths, absolute and without links.
    pub(super) readable: &'a [PathBuf],
    /// The writable paths, absolute and without links.
    pub(super) writable: &'a [PathBuf],
    /// The writable allowed root and its path.
    pub(super) root: Option<(BorrowedFd<'a>, &'a Path)>,
    /// Whether the root is passed as an unattached mount rather than as the folder.
    pub(super) root_is_mount: bool,
    /// Additional names that the process may use for these paths. They may lead through links.
    pub(super) names: &'a [PathBuf],
    /// A user that has no name on this machine, for which entries are added.
    pub(super) user: Option<User>,
    /// Whether the kernel counts memory that is mapped from `/dev/zero`. If not, the device is not mounted.
    pub(super) zero: bool,
    /// Whether the process writes user mappings, for its children or for itself.
    pub(super) writes_proc: bool,
    /// The temporary folder's mount options.
    pub(super) temp: &'a TempOptions,
    /// Additional settings: files below `/etc` with their content.
    pub(super) settings: &'a [(PathBuf, String)],
}

/// The size and owner of a temporary folder in memory, as mount options.
pub(super) struct TempOptions {
    pairs: Vec<(&'static str, String)>,
}

impl TempOptions {
    /// Creates the options. `owner`: `None` selects the calling user.
    pub(super) fn new(bytes: u64, owner: Option<User>) -> Self {
        let mut pairs =
            vec![("size", bytes.to_string()), ("nr_inodes", MOST_TEMP_FILES.to_string()), ("mode", "0700".to_owned())];
        if let Some(User { uid, gid }) = owner {
            pairs.extend([("uid", uid.to_string()), ("gid", gid.to_string())]);
        }
        Self { pairs }
    }

    /// Formats the options for mount(2).
    pub(super) fn text(&self) -> String {
        self.pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    fn mount(&self) -> io::Result<OwnedFd> {
        let pairs: Vec<_> = self.pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        mount::new("tmpfs", &pairs, PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV)
    }
}

/// An unattached mount and its target path.
struct Pending {
    path: PathBuf,
    mount: OwnedFd,
    is_folder: bool,
}

/// Replaces the calling process's root with this view. The process must have its own mount namespace.
///
/// # Errors
/// Fails if a path is missing or the kernel does not allow it. Then the process must not continue.
pub(super) fn enter(view: &FileSystemView<'_>) -> io::Result<()> {
    // From here on, mounts do not propagate to other namespaces.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let content = Content::from_old_root(view)?;
    let options = [("size", "16m"), ("nr_inodes", "4096"), ("mode", "0755")];
    let root = mount::new("tmpfs", &options, PLAIN)?;
    mount::attach(&root, CWD, Path::new(STAGE))?;
    fchdir(&root)?;
    // The old root is mounted on top of the new one and then detached, with everything below it (pivot_root(2)).
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    // The process's user must be able to enter the folders, whatever the worker's umask is.
    let before = umask(Mode::from_raw_mode(0o022));
    // Do this only now, so that a link in a skill's folder can't create anything in the old root.
    let filled = fill(&root, view, &content);
    umask(before);
    filled?;
    mount::freeze(Path::new("/"))
}

/// Content that is taken from the old root before it is detached.
struct Content {
    /// The mounts, with parents before their children.
    pending: Vec<Pending>,
    proc: OwnedFd,
    temp: OwnedFd,
    settings: Vec<(&'static str, Vec<u8>)>,
    /// Links and their targets.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Content {
    fn from_old_root(view: &FileSystemView<'_>) -> io::Result<Self> {
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
            // The kernel mounts another `/proc` only while one is visible.
            proc: mount::new("proc", &[], attributes)?,
            temp: view.temp.mount()?,
            settings: settings(),
            links,
        })
    }
}

/// Copies everything that the view shows, parents before children. Opens these paths before the new root covers
/// them.
fn pending(view: &FileSystemView<'_>) -> io::Result<Vec<Pending>> {
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
        // A path below a visible path needs no separate mount. Below a writable path it stays writable.
        if !pending.iter().any(|it| path.starts_with(&it.path)) {
            pending.push(copy_of_plain(path, read_only)?);
        }
    }
    pending.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pending)
}

/// Settings that are folders, which are shown unchanged.
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

/// Copies a path of the plan. Refuses links: the path had none, so a link was created since.
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

/// Opens the same folder in this mount namespace, because only a descriptor from this namespace can copy its
/// mounts. The path is only a hint: the folder itself is compared.
fn reopen(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let (wanted, found) = (rustix::fs::fstat(folder)?, rustix::fs::fstat(&opened)?);
    if (wanted.st_dev, wanted.st_ino) == (found.st_dev, found.st_ino) {
        return Ok(opened);
    }
    Err(Errno::STALE.into())
}

/// Returns the entries with which programs look up the name of the process's user.
fn names_of(user: User) -> [(&'static str, String); 2] {
    let User { uid, gid } = user;
    [
        ("/etc/passwd", format!("skill:x:{uid}:{gid}:skill:{TEMP}:/usr/sbin/nologin\n")),
        ("/etc/group", format!("skill:x:{gid}:\n")),
    ]
}

/// Returns the settings that are files, with their content. Skips files that are missing or too large.
fn settings() -> Vec<(&'static str, Vec<u8>)> {
    let read = |path: &&'static str| {
        let about = std::fs::metadata(path).ok().filter(|it| it.is_file() && it.len() <= MAX_SETTING_BYTES)?;
        let content = std::fs::read(path).ok()?;
        (about.len() <= MAX_SETTING_BYTES).then_some((*path, content))
    };
    SETTINGS.iter().filter(|it| it.starts_with("/etc/")).filter_map(read).collect()
}

/// Attaches all mounts and writes all files below the new root.
fn fill(root: &OwnedFd, view: &FileSystemView<'_>, content: &Content) -> io::Result<()> {
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
        // A mount by a fork server's call would cover paths that are shown below such a link.
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

/// Returns a path relative to the root.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Creates a folder and its missing ancestors.
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

/// Creates a missing mount point.
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

/// Creates a link, unless the path exists already.
fn link(root: &OwnedFd, path: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        folder(root, parent)?;
    }
    match symlinkat(target, root, below(path)) {
        Ok(()) | Err(Errno::EXIST | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Finds the links between a name and the visible path, such as `/home/ada/python` where `/home` is a link.
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

/// Returns a path and its ancestors, longest first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = path.components().filter(|it| matches!(it, Component::Normal(_) | Component::ParentDir));
    let mut parts: Vec<PathBuf> = named.map(|it| PathBuf::from(it.as_os_str())).collect();
    parts.reverse();
    parts
}
