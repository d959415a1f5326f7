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

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{chdir, fchdir, pivot_root, umask};

use super::files::is_folder;
use super::identity::User;
use super::mount::{self, PLAIN};
use super::plan::Walls;
use super::system::{self, DEVICES, KERNEL, PRIVATE, PROGRAMS};
use crate::allowed_root::{is_same, open_place, parts};

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

/// What a process sees in addition to the system's paths.
pub(super) struct FileSystemView<'a> {
    pub(super) walls: &'a Walls,
    /// The allowed root: a folder, or an unattached mount if the walls map it.
    pub(super) root: Option<BorrowedFd<'a>>,
    /// The temporary folder's mount options.
    pub(super) temp: &'a [(&'static str, String)],
    /// Whether the process is a fork server, whose calls write user mappings and are measured.
    pub(super) forks: bool,
}

/// Returns the size and owner of a temporary folder in memory, as mount options. `owner`: `None` selects the calling
/// user.
pub(super) fn temp_options(bytes: u64, owner: Option<User>) -> Vec<(&'static str, String)> {
    let mut options =
        vec![("size", bytes.to_string()), ("nr_inodes", MOST_TEMP_FILES.to_string()), ("mode", "0700".to_owned())];
    if let Some(User { uid, gid }) = owner {
        options.extend([("uid", uid.to_string()), ("gid", gid.to_string())]);
    }
    options
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
    let content = content(view)?;
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

/// Takes the content from the old root.
fn content(view: &FileSystemView<'_>) -> io::Result<Content> {
    let mut attributes = PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // A fork server and a sandbox write user mappings.
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, !view.forks && view.walls.sandbox.is_none());
    let mut links = Vec::new();
    for path in PROGRAMS.iter().map(PathBuf::from).filter(|it| it.is_symlink()) {
        links.push((path.clone(), path.read_link()?));
    }
    for name in &view.walls.names {
        links_to(name, &mut links)?;
    }
    Ok(Content {
        pending: pending(view)?,
        // The kernel mounts another `/proc` only while one is visible.
        proc: mount::new::<&str>("proc", &[], attributes)?,
        temp: mount::new("tmpfs", view.temp, PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV)?,
        settings: settings(),
        links,
    })
}

/// Copies everything that the view shows, parents before children. Opens these paths before the new root covers
/// them.
fn pending(view: &FileSystemView<'_>) -> io::Result<Vec<Pending>> {
    let (walls, mut pending) = (view.walls, Vec::new());
    let read_only = PLAIN | MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV;
    for path in PROGRAMS.iter().map(Path::new).filter(|it| it.is_dir() && !it.is_symlink()) {
        pending.push(copy_of(path, read_only)?);
    }
    // A meter does not see memory that is mapped from this device.
    let zero = walls.counted && !view.forks;
    for path in DEVICES.map(Path::new).iter().filter(|it| is_device(it) && (zero || !it.ends_with("zero"))) {
        pending.push(copy_of(path, PLAIN)?);
    }
    let folders = system::settings().filter_map(|(path, is_folder)| is_folder.then_some(path));
    for path in folders.chain(["/etc/alternatives", "/nix/store"]).map(Path::new).filter(|it| it.is_dir()) {
        pending.push(copy_of(path, read_only)?);
    }
    let writable = PLAIN | MountAttrFlags::MOUNT_ATTR_NODEV;
    // These paths had no links when the plan was made, so a link was created since, and is refused.
    for path in &walls.writable {
        pending.push(copy_of_opened(path, open_place(path)?, writable)?);
    }
    if let Some((root, path)) = view.root.zip(walls.root.as_deref()) {
        let mount = match walls.map_root {
            true => root.try_clone_to_owned()?,
            false => mount::copy(reopen(root, path)?, writable)?,
        };
        pending.push(Pending { path: path.to_owned(), mount, is_folder: true });
    }
    for path in &walls.readable {
        // A path below a visible path needs no separate mount. Below a writable path it stays writable.
        if !pending.iter().any(|it| path.starts_with(&it.path)) {
            pending.push(copy_of_opened(path, open_place(path)?, read_only)?);
        }
    }
    pending.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pending)
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.file_type().is_char_device())
}

fn copy_of(path: &Path, attributes: MountAttrFlags) -> io::Result<Pending> {
    copy_of_opened(path, openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, attributes)
}

fn copy_of_opened(path: &Path, opened: OwnedFd, attributes: MountAttrFlags) -> io::Result<Pending> {
    let is_folder = is_folder(&opened)?;
    Ok(Pending { path: path.to_owned(), mount: mount::copy(opened, attributes)?, is_folder })
}

/// Opens the same folder in this mount namespace, because only a descriptor from this namespace can copy its
/// mounts. The path is only a hint: the folder itself is compared.
fn reopen(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let is_it = is_same(&rustix::fs::fstat(folder)?, &rustix::fs::fstat(&opened)?);
    if is_it { Ok(opened) } else { Err(Errno::STALE.into()) }
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
    let read = |path: &'static str| {
        std::fs::metadata(path).ok().filter(|it| it.is_file() && it.len() <= MAX_SETTING_BYTES)?;
        Some((path, std::fs::read(path).ok()?))
    };
    system::settings().map(|(path, _)| path).filter(|it| it.starts_with("/etc/")).filter_map(read).collect()
}

/// Attaches all mounts and writes all files below the new root.
fn fill(root: &OwnedFd, view: &FileSystemView<'_>, content: &Content) -> io::Result<()> {
    let Content { pending, proc, temp, settings, links } = content;
    let walls = view.walls;
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
        if !pending.iter().any(|it| it.path.starts_with(alias)) && !walls.names.iter().any(|it| it.starts_with(alias)) {
            symlinkat(target, root, below(Path::new(alias)))?;
        }
    }
    let copied = settings.iter().map(|(path, content)| (Path::new(path), content.as_slice()));
    let own = walls.sandbox.iter().flat_map(|it| &it.settings);
    let own = own.map(|(path, content)| (path.as_path(), content.as_bytes()));
    for (path, content) in copied.chain(own) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        folder_above(root, path)?;
        let file = openat(root, below(path), flags, Mode::from_raw_mode(0o644))?;
        let mut file = std::fs::File::from(file);
        io::Write::write_all(&mut file, content)?;
        let own = walls.identity.user.map(names_of).into_iter().flatten().find(|(name, _)| Path::new(name) == path);
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
    above.into_iter().rev().try_for_each(|path| unless_there(mkdirat(root, path, Mode::from_raw_mode(0o755))))
}

/// Creates the folder that contains a path.
fn folder_above(root: &OwnedFd, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| folder(root, parent))
}

/// Ignores the error of creating a path that exists already, perhaps in a mount.
fn unless_there<T>(created: rustix::io::Result<T>) -> io::Result<()> {
    match created {
        Ok(_) | Err(Errno::EXIST | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a missing mount point.
fn target(root: &OwnedFd, path: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        return folder(root, path);
    }
    folder_above(root, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    unless_there(openat(root, below(path), flags, Mode::from_raw_mode(0o444)))
}

/// Creates a link, unless the path exists already.
fn link(root: &OwnedFd, path: &Path, target: &Path) -> io::Result<()> {
    folder_above(root, path)?;
    unless_there(symlinkat(target, root, below(path)))
}

/// Finds the links between a name and the visible path, such as `/home/ada/python` where `/home` is a link.
fn links_to(name: &Path, found: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    let mut rest: Vec<OsString> = parts(name).rev().collect();
    let mut walked = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            walked.pop();
            continue;
        }
        walked.push(&part);
        let Ok(target) = std::fs::read_link(&walked) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        rest.extend(parts(&target).rev());
        let is_absolute = target.is_absolute();
        found.push((walked.clone(), target));
        walked.pop();
        if is_absolute {
            walked = PathBuf::from("/");
        }
    }
    Ok(())
}
