//! Accepts connections and performs many handshakes concurrently.

use std::collections::VecDeque;
use std::io::Error;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::server::TlsStream;

use super::server::Acceptor;

/// The maximum number of concurrent handshakes. One more replaces the oldest, so that handshakes that never finish
/// do not block new connections.
const MAX_HANDSHAKES: usize = 256;

/// A listener for TLS connections.
pub struct Handshakes {
    listener: TcpListener,
    acceptor: Acceptor,
    /// Called for each client whose handshake failed.
    refused: fn(SocketAddr, &Error),
    under_way: JoinSet<Result<TlsStream<TcpStream>, (SocketAddr, Error)>>,
    /// The running handshakes, oldest first.
    order: VecDeque<AbortHandle>,
}

impl Handshakes {
    /// Creates a listener that accepts TLS connections. `refused` is called for each client whose handshake
    /// failed.
    pub fn new(listener: TcpListener, acceptor: Acceptor, refused: fn(SocketAddr, &Error)) -> Self {
        Self { listener, acceptor, refused, under_way: JoinSet::new(), order: VecDeque::new() }
    }

    /// Waits for the next connection with a completed handshake. Cancel-safe.
    pub async fn next(&mut self) -> TlsStream<TcpStream> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    // Out of descriptors, for example: an immediate retry would spin.
                    Err(error) => {
                        tracing::debug!(%error, "accepting a connection failed");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(ended) = self.under_way.join_next() => {
                    self.order.retain(|it| !it.is_finished());
                    match ended {
                        Ok(Ok(stream)) => return stream,
                        Ok(Err((peer, error))) => (self.refused)(peer, &error),
                        // Aborted to make room for a newer handshake.
                        Err(_) => {}
                    }
                }
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_nodelay(true);
        if self.order.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        let acceptor = self.acceptor.clone();
        let handshake = async move { acceptor.accept(stream).await.map_err(|error| (peer, error)) };
        self.order.push_back(self.under_way.spawn(handshake));
    }
}
