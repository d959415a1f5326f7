//! Where the gateway listens: one TCP listener a shard, sharing a port by `SO_REUSEPORT`.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Binds one listener for each shard. With port 0, all share the free port that the first is given.
///
/// # Errors
/// The address is in use, or may not be bound.
pub fn bind(mut address: SocketAddr, shards: usize) -> std::io::Result<Vec<TcpListener>> {
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
