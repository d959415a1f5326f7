//! Ports that are reserved, not guessed.

use std::net::SocketAddr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A TCP port of 127.0.0.1, held until this is dropped.
///
/// A bound socket holds it, which does not listen: connections are refused, and the kernel gives the port to nobody who
/// asks for any free one. A server that asks for this very port gets it, if it sets `SO_REUSEADDR`, as servers do.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    _socket: std::os::fd::OwnedFd,
}

impl Port {
    pub fn reserve() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &any).unwrap();
        let address = getsockname(&socket).unwrap().try_into().unwrap();
        Self { address, _socket: socket }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn number(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_connections_until_its_server_listens() {
        let port = Port::reserve();
        assert_eq!(TcpStream::connect(port.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let server = TcpListener::bind(port.address()).expect("a server that reuses addresses may have it");
        TcpStream::connect(port.address()).unwrap();
        drop(server);
        // A second server on the same port, as after a restart.
        TcpListener::bind(port.address()).unwrap();
    }
}
