//! Addresses to listen on, and one bound listener for each shard.

use std::io::ErrorKind;
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

/// How often, and how far apart in nanoseconds, an address in use is asked for again before `bind` gives up: about a second
/// in all. A child that a killed process was starting inherits its listeners until it executes its own program, so a process
/// that starts again at once may find them still open.
const RETRIES: usize = 50;
const RETRY_INTERVAL_NS: i64 = 20_000_000;

/// Binds one listener for each shard. TCP shards share the port by `SO_REUSEPORT`; unix shards share one socket.
///
/// A socket file that nobody answers at, left by a killed process, is replaced. Only its owner may connect to the new one.
/// An address in use is asked for again for about a second. This blocks the thread: nothing else runs before a server
/// listens.
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
/// As [`bind`], it asks again for an address in use.
///
/// # Errors
/// The address is in use, or may not be bound.
pub fn bind_tcp(address: SocketAddr, shards: usize) -> std::io::Result<Vec<TcpListener>> {
    while_in_use(|| bind_tcp_once(address, shards), wait)
}

/// Calls `bind` until it succeeds, fails for another reason than an address in use, or has been called [`RETRIES`] times
/// more. Calls `wait` in between.
fn while_in_use<T>(mut bind: impl FnMut() -> std::io::Result<T>, mut wait: impl FnMut()) -> std::io::Result<T> {
    for _ in 0..RETRIES {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => wait(),
            bound => return bound,
        }
    }
    bind()
}

fn wait() {
    let interval = Timespec { tv_sec: 0, tv_nsec: RETRY_INTERVAL_NS };
    let _ = poll(&mut [], Some(&interval));
}

fn bind_tcp_once(mut address: SocketAddr, shards: usize) -> std::io::Result<Vec<TcpListener>> {
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
    let listener = while_in_use(|| bind_unix_once(path), wait)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let mut listeners = Vec::with_capacity(shards);
    for _ in 1..shards {
        listeners.push(Listener::Unix(listener.try_clone()?));
    }
    listeners.push(Listener::Unix(listener));
    Ok(listeners)
}

fn bind_unix_once(path: &Path) -> std::io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
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
    fn an_address_in_use_is_asked_for_again_until_it_is_free() {
        let holder = bind_tcp(SocketAddr::from(([127, 0, 0, 1], 0)), 1).unwrap();
        let address = holder[0].local_addr().unwrap();
        let (mut holder, mut waits) = (Some(holder), 0);
        let bound = while_in_use(
            || bind_tcp_once(address, 1),
            || {
                waits += 1;
                if waits == 3 {
                    holder = None;
                }
            },
        );
        assert_eq!((bound.unwrap()[0].local_addr().unwrap(), waits), (address, 3));
    }

    #[test]
    fn an_address_that_stays_in_use_and_one_that_may_not_be_bound_are_errors() {
        let (mut calls, mut waits) = (0, 0);
        let fail = |kind: ErrorKind, calls: &mut usize| {
            *calls += 1;
            Err::<(), _>(std::io::Error::from(kind))
        };
        let error = while_in_use(|| fail(ErrorKind::AddrInUse, &mut calls), || waits += 1).unwrap_err();
        assert_eq!((error.kind(), calls, waits), (ErrorKind::AddrInUse, RETRIES + 1, RETRIES));
        calls = 0;
        let error = while_in_use(|| fail(ErrorKind::PermissionDenied, &mut calls), || unreachable!()).unwrap_err();
        assert_eq!((error.kind(), calls), (ErrorKind::PermissionDenied, 1));
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
