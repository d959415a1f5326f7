//! The only way out of a browser's network. The worker accepts each connection there, checks it against the egress
//! rules, and connects to the target. A name is resolved once, and the connection goes to the address that was
//! checked.
//!
//! The protocol is SOCKS 5 (RFC 1928) without authentication, limited to CONNECT. The browser sends host names to
//! the relay, so it does not resolve any itself, and it can't use UDP at all.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openskill_net::egress::allow::Allowed;
use openskill_net::egress::client::resolve;
use openskill_net::egress::reach::{EgressRefusal, Reach};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use url::Url;

/// The maximum number of concurrent connections of one browser.
const MOST_CONNECTIONS: usize = 256;

/// The maximum number of names that one browser resolves at the same time.
const MOST_LOOK_UPS: usize = 8;

/// The time limit for the browser to send its target.
const GREETING: Duration = Duration::from_secs(10);

/// The time limit for connecting to a target.
const CONNECT: Duration = Duration::from_secs(10);

/// The maximum number of remembered connection failures.
const MOST_REFUSALS: usize = 32;

const VERSION: u8 = 5;
const CONNECT_COMMAND: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;

/// The reply codes of RFC 1928, section 6.
#[derive(Clone, Copy)]
enum SocksReply {
    Succeeded = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

/// The connections of a relay that failed. Explains load failures to callers.
#[derive(Debug, Default)]
pub(super) struct RelayLog {
    refusals: Mutex<VecDeque<FailedConnection>>,
    refused: AtomicU64,
}

#[derive(Debug)]
struct FailedConnection {
    /// The sequence number of this failure, from 1.
    number: u64,
    host: String,
    failure: LoadFailure,
}

impl RelayLog {
    /// Returns the total number of failed connections.
    pub(super) fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Explains why a page of `host` was not loaded, if a connection has failed after the first `before` failures.
    /// Prefers the last failure of this host, and otherwise uses the last failure of any host, because the host
    /// may have redirected elsewhere.
    pub(super) fn failure_since(&self, before: u64, host: &str) -> Option<LoadFailure> {
        let all = self.refusals.lock();
        let new = || all.iter().rev().filter(|it| it.number > before);
        let last = new().find(|it| it.host.eq_ignore_ascii_case(host)).or_else(|| new().next())?;
        Some(last.failure.clone())
    }

    fn record(&self, host: String, problem: &ConnectFailure) {
        let number = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let mut all = self.refusals.lock();
        if all.len() == MOST_REFUSALS {
            all.pop_front();
        }
        let failure = match problem {
            ConnectFailure::Refused(reason) => LoadFailure::Refused(reason.clone()),
            other => LoadFailure::Failed(format!("{host}: {other}")),
        };
        all.push_back(FailedConnection { number, host, failure });
    }
}

/// Why a page was not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoadFailure {
    /// The egress rules do not allow the connection.
    Refused(String),
    Failed(String),
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
enum ConnectFailure {
    #[error("{0}")]
    Refused(String),
    #[error("its name can't be resolved")]
    NoName,
    #[error("nothing listens at this address")]
    Unreachable,
    #[error("it is not a host")]
    NoHost,
}

/// Serves the connections of a browser, whose network namespace `listener` was opened in. Dropping the future closes them
/// all.
pub(super) async fn serve(listener: TcpListener, allowed: Arc<Allowed>, log: Arc<RelayLog>) {
    let (slots, look_ups) = (Arc::new(Semaphore::new(MOST_CONNECTIONS)), Arc::new(Semaphore::new(MOST_LOOK_UPS)));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // The network is gone, or the process is out of file descriptors. Avoid a busy loop.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (allowed, log, look_ups) = (Arc::clone(&allowed), Arc::clone(&log), Arc::clone(&look_ups));
        connections.spawn(async move {
            let _slot = slot;
            let _ = relay(stream, &allowed, &log, look_ups).await;
        });
    }
}

async fn relay(mut browser: TcpStream, allowed: &Allowed, log: &RelayLog, look_ups: Arc<Semaphore>) -> Result<()> {
    let _ = browser.set_nodelay(true);
    let asked = tokio::time::timeout(GREETING, greet(&mut browser)).await.map_err(|_| ErrorKind::TimedOut)?;
    let (host, port) = asked?;
    let mut server = match connect(&host, port, allowed, look_ups).await {
        Ok(server) => server,
        Err(problem) => {
            tracing::debug!(host, port, %problem, "a browser's connection failed");
            let reply = match problem {
                ConnectFailure::Refused(_) => SocksReply::NotAllowed,
                _ => SocksReply::HostUnreachable,
            };
            log.record(host, &problem);
            return answer(&mut browser, reply).await;
        }
    };
    tracing::debug!(host, port, "a browser's connection was established");
    answer(&mut browser, SocksReply::Succeeded).await?;
    tokio::io::copy_bidirectional(&mut browser, &mut server).await?;
    Ok(())
}

/// Performs the SOCKS handshake. Returns the target that the browser wants to connect to.
async fn greet(browser: &mut TcpStream) -> Result<(String, u16)> {
    let [version, methods] = read(browser).await?;
    if version != VERSION {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    let mut offered = vec![0; methods.into()];
    browser.read_exact(&mut offered).await?;
    if !offered.contains(&NO_AUTHENTICATION) {
        browser.write_all(&[VERSION, 0xff]).await?;
        return Err(Error::from(ErrorKind::InvalidData));
    }
    browser.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [_, command, _, kind] = read(browser).await?;
    if command != CONNECT_COMMAND {
        answer(browser, SocksReply::CommandNotSupported).await?;
        return Err(Error::from(ErrorKind::Unsupported));
    }
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(browser).await?).to_string(),
        3 => {
            let [length] = read(browser).await?;
            let mut name = vec![0; length.into()];
            browser.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| ErrorKind::InvalidData)?
        }
        4 => format!("[{}]", Ipv6Addr::from(read::<16>(browser).await?)),
        _ => {
            answer(browser, SocksReply::AddressNotSupported).await?;
            return Err(Error::from(ErrorKind::Unsupported));
        }
    };
    Ok((host, u16::from_be_bytes(read(browser).await?)))
}

async fn read<const N: usize>(from: &mut TcpStream) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn answer(browser: &mut TcpStream, reply: SocksReply) -> Result<()> {
    // Pages must not learn the connection's local address.
    browser.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

/// Connects to the first allowed address of the host, and sends the SOCKS reply.
async fn connect(
    host: &str,
    port: u16,
    allowed: &Allowed,
    look_ups: Arc<Semaphore>,
) -> std::result::Result<TcpStream, ConnectFailure> {
    // A name with a colon would change how the URL is parsed. IPv6 addresses contain colons and were parsed
    // before.
    let is_name = !host.starts_with('[') && host.parse::<Ipv6Addr>().is_err();
    if port == 0 || (is_name && host.contains([':', '/', '@', '?', '#', '\\'])) {
        return Err(ConnectFailure::NoHost);
    }
    let bare: std::result::Result<Ipv6Addr, _> = host.parse();
    let host = if bare.is_ok() { format!("[{host}]") } else { host.to_owned() };
    let url = Url::parse(&format!("http://{host}:{port}/")).map_err(|_| ConnectFailure::NoHost)?;
    let reach = Reach::for_url(&url, allowed).map_err(|it| connect_refusal(&it, port))?;
    let addresses = match url.host() {
        Some(url::Host::Ipv4(address)) => vec![(address, port).into()],
        Some(url::Host::Ipv6(address)) => vec![(address, port).into()],
        Some(url::Host::Domain(name)) => {
            let found = tokio::time::timeout(CONNECT, resolve(name.to_owned(), look_ups)).await;
            found.map_err(|_| ConnectFailure::NoName)?.map_err(|_| ConnectFailure::NoName)?
        }
        None => return Err(ConnectFailure::NoHost),
    };
    let mut refusal = None;
    let mut tried = false;
    for mut address in addresses {
        if let Err(refused) = reach.check_address(&host, address.ip()) {
            refusal = Some(refused);
            continue;
        }
        tried = true;
        address.set_port(port);
        if let Ok(Ok(server)) = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            let _ = server.set_nodelay(true);
            return Ok(server);
        }
    }
    match refusal {
        Some(refusal) if !tried => Err(connect_refusal(&refusal, port)),
        _ if tried => Err(ConnectFailure::Unreachable),
        _ => Err(ConnectFailure::NoName),
    }
}

/// Returns the failure for a connection that the egress rules reject. The message refers to the worker's setting
/// instead of a manifest's.
fn connect_refusal(refusal: &EgressRefusal, port: u16) -> ConnectFailure {
    ConnectFailure::Refused(match refusal {
        EgressRefusal::Address { host, kind } => {
            format!("'{host}' is {kind}, which browsers reach only if OPENSKILL_BROWSER_ALLOW names '{host}:{port}'")
        }
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_a_page_from_loading_is_what_became_of_its_own_host() {
        let log = RelayLog::default();
        let refused =
            |host: &str| log.record(host.to_owned(), &ConnectFailure::Refused(format!("'{host}' is refused")));
        let why = |before, host: &str| log.failure_since(before, host);
        assert_eq!(why(0, "a.example"), None);
        log.record("a.example".to_owned(), &ConnectFailure::Unreachable);
        // A page in another tab failed to load.
        refused("10.0.0.1");
        assert_eq!(
            why(0, "a.example"),
            Some(LoadFailure::Failed("a.example: nothing listens at this address".to_owned()))
        );
        assert_eq!(why(0, "10.0.0.1"), Some(LoadFailure::Refused("'10.0.0.1' is refused".to_owned())));
        // The host responded and redirected to another host.
        assert_eq!(why(1, "A.example"), Some(LoadFailure::Refused("'10.0.0.1' is refused".to_owned())));
        assert_eq!(why(2, "a.example"), None);
    }
}
