//! The Landlock rules of a jailed process: which files and TCP ports it may access, and which processes it may signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use super::plan::{Sandbox, Walls};
use super::system::{self, KERNEL, OWN_SETTINGS, PRIVATE, PROGRAMS, READ_DEVICES, WRITE_DEVICES, ZERO};
use crate::allowed_root::open_place;
use crate::jail::requirement::Network;

/// The newest ABI whose rights are requested. Rights that the kernel does not know are omitted.
const NEWEST: ABI = ABI::V9;

/// The DNS port. Names are resolved over TCP, so that the list of TCP ports covers all traffic.
pub(super) const DNS: u16 = 53;

/// The file system to which the rules' paths refer.
#[derive(Clone, Copy)]
pub(super) enum PathView<'a> {
    /// The worker's file system, with this temporary folder.
    Host(Option<&'a Path>),
    /// The process's own root (see [`view`](super::view)).
    Own,
}

/// Creates the rules, which take effect only with [`enter`]. `root`: the allowed root, as an open folder.
/// `counted`: whether the kernel counts all the process's memory. Otherwise the process may not map `/dev/zero`,
/// which provides memory that a meter does not see.
pub(super) fn rules(
    walls: &Walls,
    root: Option<BorrowedFd<'_>>,
    view: PathView<'_>,
    counted: bool,
) -> io::Result<RulesetCreated> {
    let (settings, temp): (Vec<_>, _) = match view {
        PathView::Host(temp) => (system::settings().map(|(path, _)| path).collect(), temp),
        PathView::Own => (OWN_SETTINGS.to_vec(), Some(Path::new(PRIVATE))),
    };
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST)).map_err(io::Error::other)?;
    let ruleset = ruleset.scope(Scope::from_all(NEWEST)).map_err(io::Error::other)?;
    let ruleset = match walls.network {
        Network::Full => ruleset,
        _ => ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(io::Error::other)?,
    };
    let mut rules = ruleset.create().map_err(io::Error::other)?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::IoctlDev;
    for (paths, access) in [
        (PROGRAMS.as_slice(), run),
        (&settings, read),
        (&READ_DEVICES, device),
        (&WRITE_DEVICES, device | AccessFs::WriteFile | AccessFs::Truncate),
    ] {
        for path in paths.iter().filter(|it| counted || **it != ZERO) {
            if let Ok(opened) = PathFd::new(path) {
                rules = allow(rules, opened, access)?;
            }
        }
    }
    // These paths had no links when the plan was made, so a link was created since, and is refused.
    for path in &walls.readable {
        rules = allow(rules, open_place(path)?, run)?;
    }
    let mut all = AccessFs::from_all(NEWEST);
    all.remove(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    if let Some(root) = root {
        if !is_folder(root)? {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        rules = allow(rules, root, all)?;
    }
    for path in walls.writable.iter().map(AsRef::as_ref).chain(temp) {
        rules = allow(rules, open_place(path)?, all)?;
    }
    if let Network::Connect(ports) = &walls.network {
        rules = add_ports(rules, ports)?;
    }
    if let Some(Sandbox { port, .. }) = &walls.sandbox {
        // The sandbox's processes write their user mappings here. All other files in it belong to other users.
        rules = allow(rules, PathFd::new(KERNEL).map_err(io::Error::other)?, read | AccessFs::WriteFile)?;
        let both = AccessNet::BindTcp | AccessNet::ConnectTcp;
        rules = rules.add_rule(NetPort::new(*port, both)).map_err(io::Error::other)?;
    }
    Ok(rules)
}

/// Creates rules for the network only. A process that creates mounts needs these, because Landlock's file rules
/// forbid mounts. Returns `None` if nothing must be restricted, or if another wall does it.
pub(super) fn ports(walls: &Walls) -> io::Result<Option<RulesetCreated>> {
    let Network::Connect(ports) = &walls.network else { return Ok(None) };
    let ruleset = Ruleset::default().handle_access(AccessNet::from_all(NEWEST)).map_err(io::Error::other)?;
    add_ports(ruleset.create().map_err(io::Error::other)?, ports).map(Some)
}

fn add_ports(mut rules: RulesetCreated, ports: &[u16]) -> io::Result<RulesetCreated> {
    for port in ports.iter().copied().chain([DNS]) {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(io::Error::other)?;
    }
    Ok(rules)
}

/// Adds a rule. For a file, omits the rights that apply only to folders.
fn allow(rules: RulesetCreated, opened: impl AsFd, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let access = if is_folder(&opened)? { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)
}

pub(super) fn is_folder(opened: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode).is_dir())
}

/// Enforces the rules irrevocably. Only makes system calls.
pub(super) fn enter(rules: RulesetCreated) -> io::Result<RestrictionStatus> {
    let status = rules.restrict_self().map_err(|_| io::Error::from_raw_os_error(1))?;
    // The kernel supported the rules when the worker started, so nothing may run without them.
    if status.ruleset == RulesetStatus::NotEnforced { Err(io::Error::from_raw_os_error(1)) } else { Ok(status) }
}

/// Returns the kernel's ABI at the time when the rules were enforced.
pub(super) fn abi(status: &RestrictionStatus) -> u32 {
    match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            kernel_abi.unwrap_or(0).max(effective_abi as i32).unsigned_abs()
        }
        _ => 0,
    }
}
