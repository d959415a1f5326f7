//! The process in a browser's jail that is not the browser: `openskill browser-host PROGRAM ARGUMENT...`. It opens the relay's
//! port in the jail's network, hands that socket to the worker, starts the browser, and hands out the files it downloaded.
//!
//! Its stdin is a socket of packets to the worker, its stdout the socket that the browser and the worker talk over. It trusts
//! the worker; what it hands over is a file of the jail at worst.

use std::io::{Result, stdin};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::Shutdown;
use rustix::process::DumpableBehavior;

use super::descriptors::{receive, send};

/// The first argument that makes the openskill binary this process.
pub const ARGUMENT: &str = "browser-host";

/// The port of the relay. Nobody else is in this network, so it is free.
pub(crate) const RELAY_PORT: u16 = 3128;

/// Where the browser's files are: in memory, and gone with the jail.
pub(super) const HOME: &str = "/private/tmp";

/// Where it puts downloads, each named by an id of its own.
pub(super) const DOWNLOADS: &str = "/private/tmp/downloads";

/// Descriptors 3 and 4 are those that a browser reads and writes messages by (`--remote-debugging-pipe`).
const START: &str = "exec \"$0\" \"$@\" 3<&1 4>&1 </dev/null >/dev/null";

/// The first message: the relay's socket.
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
    // The browser has the same user: it is to read nothing of this process, and to write nothing into it.
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
    // If the worker hung up, the supervisor ends the browser.
    Ok(())
}

/// A file that was downloaded. It has no name any more: its memory is free once the worker has read it.
fn take(name: &[u8]) -> Option<OwnedFd> {
    let name = std::str::from_utf8(name).ok()?;
    let is_id = !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = is_id.then(|| format!("{DOWNLOADS}/{name}"))?;
    let file = rustix::fs::open(&path, flags, Mode::empty()).ok();
    let _ = rustix::fs::unlink(&path);
    file.filter(is_plain)
}

/// Whether it is a regular file: reading it ends.
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
