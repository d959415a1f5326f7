//! A proxy in front of the gateway that resets connections on command.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long the gateway may be down, and how often to reconnect.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// The proxy. It and its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cut: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(gateway: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (cut, cuts) = watch::channel(());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, gateway, cuts));
        Self { address, cut, _tasks: tasks }
    }

    /// Resets all connections. False if there are none.
    pub(crate) fn reset(&self) -> bool {
        // The listener is a receiver too.
        let connected = self.cut.receiver_count() > 1;
        self.cut.send_replace(());
        connected
    }
}

async fn accept(listener: TcpListener, gateway: SocketAddr, cuts: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                connections.spawn(relay(client, gateway, cuts));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Waits for a gateway that is being restarted: the client's request is already in flight.
async fn reach(gateway: SocketAddr) -> Option<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(gateway).await {
            Ok(stream) => return Some(stream),
            Err(_) if begun.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            Err(_) => return None,
        }
    }
}

async fn relay(mut client: TcpStream, gateway: SocketAddr, mut cuts: watch::Receiver<()>) {
    let Some(mut upstream) = reach(gateway).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    tokio::select! {
        // Closing both tells the other side, however this one ended.
        _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
        _ = cuts.changed() => {
            let _ = (client.set_zero_linger(), upstream.set_zero_linger());
        }
    }
}
