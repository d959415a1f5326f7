//! Addresses to listen on, and one bound listener for each shard.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::event::{Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

/// How many connections may wait to be accepted, for each listener.
const BACKLOG: i32 = 1024;

/// An address to listen on: `127.0.0.1:9000` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// The text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an address to listen on: write HOST:PORT with a numeric host, or unix:/path")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(PathBuf::from(path))),
            Some(_) => Err(AddressError(text.to_owned())),
            None => text.parse().map(Self::Tcp).map_err(|_| AddressError(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound listener, not yet registered with a runtime.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

/// How often, and how far apart in nanoseconds, a socket that still answers is probed before `bind` gives up: half a second
/// in all. The wait blocks the thread; nothing else runs before a worker listens.
const PROBES: usize = 25;
const PROBE_INTERVAL_NS: i64 = 20_000_000;

/// Binds one listener for each shard. TCP shards share the port by `SO_REUSEPORT`; unix shards share one socket.
///
/// A socket file that nobody answers at, left by a killed process, is replaced. Only its owner may connect to the new one.
///
/// # Errors
/// The address is in use, or may not be bound.
pub fn bind(address: &Address, shards: usize) -> std::io::Result<Vec<Listener>> {
    match address {
        Address::Tcp(address) => Ok(bind_tcp(*address, shards)?.into_iter().map(Listener::Tcp).collect()),
        Address::Unix(path) => bind_unix(path, shards),
    }
}

/// Binds one TCP listener for each shard. With port 0, all of them share the free port that the first one gets.
///
/// # Errors
/// The address is in use, or may not be bound.
pub fn bind_tcp(mut address: SocketAddr, shards: usize) -> std::io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::with_capacity(shards);
    for _ in 0..shards {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if shards > 1 {
            socket.set_reuse_port(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn bind_unix(path: &Path, shards: usize) -> std::io::Result<Vec<Listener>> {
    let is_socket = || std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    // A child that a killed worker was starting inherits the worker's socket until it executes its own program.
    for _ in 0..PROBES {
        if !is_socket() || UnixStream::connect(path).is_err() {
            break;
        }
        let interval = Timespec { tv_sec: 0, tv_nsec: PROBE_INTERVAL_NS };
        let _ = poll(&mut [], Some(&interval));
    }
    if is_socket() && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let mut listeners = Vec::with_capacity(shards);
    for _ in 1..shards {
        listeners.push(Listener::Unix(listener.try_clone()?));
    }
    listeners.push(Listener::Unix(listener));
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["127.0.0.1:9000", "[::1]:9000", "unix:/run/openskill/w.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "localhost", "9000", "unix:relative.sock", "http://127.0.0.1:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_dead_process_socket_is_replaced_and_a_live_one_is_not() {
        let path = std::env::temp_dir().join(format!("openskill-listen-{}.sock", std::process::id()));
        let address = Address::Unix(path.clone());
        let first = bind(&address, 1).unwrap();
        assert_eq!(bind(&address, 1).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        drop(first);
        let again = bind(&address, 2).unwrap();
        assert_eq!(again.len(), 2);
        std::fs::remove_file(path).unwrap();
    }
}
