//! A load balancer for connections with one request each: the next gateway each time; and another one, if that can't be reached
//! or ends before it has answered anything. What is sent through it is idempotent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The load balancer. It and its connections end when it is dropped.
pub(super) struct RoundRobin {
    pub(super) address: SocketAddr,
    gateways: Arc<[Gateway]>,
    _tasks: JoinSet<()>,
}

struct Gateway {
    address: SocketAddr,
    answered: AtomicUsize,
}

impl RoundRobin {
    pub(super) async fn start(gateways: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = |address| Gateway { address, answered: AtomicUsize::new(0) };
        let gateways: Arc<[Gateway]> = gateways.into_iter().map(gateway).collect();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&gateways)));
        Self { address, gateways, _tasks: tasks }
    }

    /// How many requests a gateway answered.
    pub(super) fn answered(&self, number: usize) -> usize {
        self.gateways[number].answered.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, gateways: Arc<[Gateway]>) {
    let (mut connections, mut next) = (JoinSet::new(), 0);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                connections.spawn(relay(client, Arc::clone(&gateways), next));
                next += 1;
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Passes a request to gateways from the `first` on, until one answers.
async fn relay(mut client: TcpStream, gateways: Arc<[Gateway]>, first: usize) {
    let mut request = Vec::new();
    for gateway in gateways.iter().cycle().skip(first % gateways.len()).take(gateways.len()) {
        if answer(&mut client, &mut request, gateway).await {
            return;
        }
    }
}

/// Whether a gateway answered. `request`: what the client has sent so far.
async fn answer(client: &mut TcpStream, request: &mut Vec<u8>, gateway: &Gateway) -> bool {
    let Ok(mut upstream) = TcpStream::connect(gateway.address).await else { return false };
    if upstream.write_all(request).await.is_err() {
        return false;
    }
    let (mut sent, mut received) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => match read {
                Ok(length @ 1..) => {
                    request.extend_from_slice(&sent[..length]);
                    if upstream.write_all(&sent[..length]).await.is_err() {
                        return false;
                    }
                }
                // The client is gone.
                _ => return true,
            },
            read = upstream.read(&mut received) => {
                let Ok(length @ 1..) = read else { return false };
                gateway.answered.fetch_add(1, Ordering::Relaxed);
                if client.write_all(&received[..length]).await.is_ok() {
                    let _ = tokio::io::copy_bidirectional(client, &mut upstream).await;
                }
                return true;
            }
        }
    }
}
