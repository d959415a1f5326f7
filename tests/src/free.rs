//! Where nobody listens.

use std::net::{SocketAddr, TcpListener};

/// An address of this machine whose port was free a moment ago.
pub fn address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("a listener has an address")
}
