//! Addresses to listen on, and one bound listener for each shard.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::event::{Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

/// The maximum number of connections that wait to be accepted, per listener.
const BACKLOG: i32 = 1024;

/// An address to listen on: `127.0.0.1:9000` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The error for a text that is not an address.
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

/// A bound listener that is not yet registered with a runtime.
#[derive(Debug)]
pub enum Listener {
    /// A TCP listener.
    Tcp(TcpListener),
    /// A Unix listener.
    Unix(UnixListener),
}

/// The maximum number of retries of `bind` for an address in use, and the delay in nanoseconds: about a second in
/// total. A child process that a killed process was starting inherits its listeners until it calls exec. So a
/// process that restarts at once may find them still open.
const RETRIES: usize = 50;
const RETRY_INTERVAL_NS: i64 = 20_000_000;

/// Binds one listener for each shard. TCP shards share the port by `SO_REUSEPORT`. Unix shards share one socket.
///
/// Replaces a stale socket file that a killed process left. Only its owner may connect to the new one. Retries an
/// address in use for about a second. The retries block the thread, which is fine before a server listens.
///
/// # Errors
/// The address is in use, or binding it is not permitted.
pub fn bind(address: &Address, shards: usize) -> std::io::Result<Vec<Listener>> {
    match address {
        Address::Tcp(address) => Ok(bind_tcp(*address, shards)?.into_iter().map(Listener::Tcp).collect()),
        Address::Unix(path) => bind_unix(path, shards),
    }
}

/// Binds one TCP listener for each shard. With port 0, all of them share the free port that the first one gets.
///
/// Like [`bind`], retries an address in use.
///
/// # Errors
/// The address is in use, or binding it is not permitted.
pub fn bind_tcp(address: SocketAddr, shards: usize) -> std::io::Result<Vec<TcpListener>> {
    while_in_use(|| bind_tcp_once(address, shards), wait)
}

/// Retries `bind` while the address is in use, at most [`RETRIES`] times. Calls `wait` before each retry.
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
