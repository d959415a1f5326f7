//! The process in a browser's jail that starts the browser: `openskill browser-host PROGRAM ARGUMENT...`. It opens
//! the relay's port in the jail's network, sends that socket to the worker, starts the browser, and sends
//! downloaded files to the worker.
//!
//! Its stdin is a packet socket to the worker, and its stdout is the socket between the browser and the worker. It
//! trusts the worker. A compromised host process can expose nothing but files of the jail.

use std::io::{Result, stdin};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::Shutdown;
use rustix::process::DumpableBehavior;

use super::descriptors::{receive, send};

/// The first argument that makes the `openskill` binary run as this process.
pub const ARGUMENT: &str = "browser-host";

/// The relay's port. Always free, because no other program runs in this network.
pub(crate) const RELAY_PORT: u16 = 3128;

/// The folder for the browser's files. It is in memory and disappears with the jail.
pub(super) const HOME: &str = "/private/tmp";

/// The download folder. Each file is named after its download id.
pub(super) const DOWNLOADS: &str = "/private/tmp/downloads";

/// Shell command that starts the browser. The browser exchanges messages on descriptors 3 and 4
/// (`--remote-debugging-pipe`).
const START: &str = "exec \"$0\" \"$@\" 3<&1 4>&1 </dev/null >/dev/null";

/// The first message, which carries the relay's socket.
pub(super) const LISTENS: &[u8] = b"relay";

static ENDED: AtomicBool = AtomicBool::new(false);

/// Runs until the browser or the worker ends.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> Result<()> {
    // The browser runs as the same user. It must not read or write this process's memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut arguments = std::env::args_os().skip(2);
    let program = arguments.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(DOWNLOADS)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, RELAY_PORT))?;
    send(stdin(), LISTENS, Some(listener.as_fd()))?;
    drop(listener);
    let mut browser =
        Command::new("/bin/sh").args(["-c", START]).arg(program).args(arguments).stdin(Stdio::null()).spawn()?;
    let waiting = std::thread::Builder::new().name("browser".to_owned()).spawn(move || {
        let _ = browser.wait();
        ENDED.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(stdin(), Shutdown::Both);
    })?;
    while let Some((name, _)) = receive(stdin())? {
        let file = take(&name);
        send(stdin(), &name, file.as_ref().map(AsFd::as_fd))?;
    }
    if ENDED.load(Ordering::Acquire) {
        let _ = waiting.join();
    }
    // The worker hung up. The supervisor kills the browser.
    Ok(())
}

/// Opens and unlinks a downloaded file, so that its memory is freed once the worker has read it.
fn take(name: &[u8]) -> Option<OwnedFd> {
    let name = std::str::from_utf8(name).ok()?;
    let is_id = !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = is_id.then(|| format!("{DOWNLOADS}/{name}"))?;
    let file = rustix::fs::open(&path, flags, Mode::empty()).ok();
    let _ = rustix::fs::unlink(&path);
    file.filter(is_plain)
}

/// Returns whether this is a regular file. Reading anything else might never end.
pub(super) fn is_plain(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_that_is_no_id_opens_nothing() {
        for name in ["", "..", "../x", "/etc/passwd", "a/b", "a.b", "a\0"] {
            assert!(super::take(name.as_bytes()).is_none(), "{name:?}");
        }
    }
}
