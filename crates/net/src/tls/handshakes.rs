//! Accepts connections, with many handshakes in progress at a time.

use std::collections::VecDeque;
use std::io::Error;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::server::TlsStream;

use super::server::Acceptor;

/// How many connections may be shaking hands. A newcomer beyond them takes the place of the oldest, so that those that never
/// finish keep nobody out.
const MAX_HANDSHAKES: usize = 256;

/// A listener of TLS connections.
pub struct Handshakes {
    listener: TcpListener,
    acceptor: Acceptor,
    /// Told of each client that did not get through.
    refused: fn(SocketAddr, &Error),
    under_way: JoinSet<Result<TlsStream<TcpStream>, (SocketAddr, Error)>>,
    /// The oldest first.
    order: VecDeque<AbortHandle>,
}

impl Handshakes {
    /// Connections of this listener. `refused` is told of each client that does not get through.
    pub fn new(listener: TcpListener, acceptor: Acceptor, refused: fn(SocketAddr, &Error)) -> Self {
        Self { listener, acceptor, refused, under_way: JoinSet::new(), order: VecDeque::new() }
    }

    /// The next connection that got through. Dropping the future loses nothing.
    pub async fn next(&mut self) -> TlsStream<TcpStream> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    // Out of descriptors, say: accepting again at once would spin.
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
                        // It gave up its place.
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
