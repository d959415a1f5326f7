//! The only way out of a browser's network: the worker accepts each connection there, decides by the rules of egress, and
//! connects. A name is resolved once, and the address that was checked is the one that is connected to.
//!
//! The protocol is SOCKS 5 (RFC 1928) without authentication and with CONNECT alone: the browser hands over names, so that it
//! resolves none, and UDP has no way at all.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use url::Url;

use crate::manifest::http::Allowed;
use crate::runners::http::client::resolve;
use crate::runners::http::egress::{Reach, Refusal};

/// Connections of one browser at a time.
const MOST_CONNECTIONS: usize = 256;

/// Names that one browser resolves at a time.
const MOST_LOOK_UPS: usize = 8;

/// How long the browser may take to say where to.
const GREETING: Duration = Duration::from_secs(10);

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How many refusals are remembered.
const MOST_REFUSALS: usize = 32;

const VERSION: u8 = 5;
const CONNECT_COMMAND: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;

/// The replies of RFC 1928, section 6.
#[derive(Clone, Copy)]
enum Reply {
    Succeeded = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

/// What a relay counts and remembers, for answers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    refusals: Mutex<VecDeque<Unmade>>,
    refused: AtomicU64,
}

/// A connection that was not made.
#[derive(Debug)]
struct Unmade {
    /// Which of all those it is, from 1.
    number: u64,
    host: String,
    reason: String,
    /// Whether the rules of egress did not allow it.
    is_refusal: bool,
}

impl Seen {
    /// How many connections were not made.
    pub(super) fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Why a page of `host` was not loaded, if a connection was not made since there were `before`: the last one to that host, or,
    /// as the host may have led elsewhere, the last one of all.
    pub(super) fn unmade_since(&self, before: u64, host: &str) -> Option<Why> {
        let all = self.lock();
        let new = || all.iter().rev().filter(|it| it.number > before);
        let last = new().find(|it| it.host.eq_ignore_ascii_case(host)).or_else(|| new().next())?;
        Some(if last.is_refusal {
            Why::Refused(last.reason.clone())
        } else {
            Why::Failed(format!("{}: {}", last.host, last.reason))
        })
    }

    fn unmade(&self, host: String, problem: &Problem) {
        let number = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let mut all = self.lock();
        if all.len() == MOST_REFUSALS {
            all.pop_front();
        }
        let is_refusal = matches!(problem, Problem::Refused(_));
        all.push_back(Unmade { number, host, reason: problem.to_string(), is_refusal });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Unmade>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a page was not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// The rules of egress do not allow it.
    Refused(String),
    Failed(String),
}

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Refused(String),
    #[error("its name can't be resolved")]
    NoName,
    #[error("nothing answers there")]
    Unreachable,
    #[error("it is not a host")]
    NoHost,
}

/// Serves the browser whose network `listener` is in, until it is dropped. All its connections end with it.
pub(super) async fn serve(listener: TcpListener, allowed: Arc<Allowed>, seen: Arc<Seen>) {
    let (slots, look_ups) = (Arc::new(Semaphore::new(MOST_CONNECTIONS)), Arc::new(Semaphore::new(MOST_LOOK_UPS)));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // The network is gone, or descriptors ran out: not at full speed then.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (allowed, seen, look_ups) = (Arc::clone(&allowed), Arc::clone(&seen), Arc::clone(&look_ups));
        connections.spawn(async move {
            let _slot = slot;
            let _ = relay(stream, &allowed, &seen, look_ups).await;
        });
    }
}

async fn relay(mut browser: TcpStream, allowed: &Allowed, seen: &Seen, look_ups: Arc<Semaphore>) -> Result<()> {
    let _ = browser.set_nodelay(true);
    let asked = tokio::time::timeout(GREETING, greet(&mut browser)).await.map_err(|_| ErrorKind::TimedOut)?;
    let (host, port) = asked?;
    let mut server = match connect(&host, port, allowed, look_ups).await {
        Ok(server) => server,
        Err(problem) => {
            tracing::debug!(host, port, %problem, "a browser's connection was not made");
            let reply = if matches!(problem, Problem::Refused(_)) { Reply::NotAllowed } else { Reply::HostUnreachable };
            seen.unmade(host, &problem);
            return answer(&mut browser, reply).await;
        }
    };
    tracing::debug!(host, port, "a browser's connection was made");
    answer(&mut browser, Reply::Succeeded).await?;
    tokio::io::copy_bidirectional(&mut browser, &mut server).await?;
    Ok(())
}

/// Reads where the browser wants to go.
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
        answer(browser, Reply::CommandNotSupported).await?;
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
            answer(browser, Reply::AddressNotSupported).await?;
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

async fn answer(browser: &mut TcpStream, reply: Reply) -> Result<()> {
    // The address that was connected from is nothing that a page is to know.
    browser.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

/// Connects to the first address of the host that may be reached and answers.
async fn connect(
    host: &str,
    port: u16,
    allowed: &Allowed,
    look_ups: Arc<Semaphore>,
) -> std::result::Result<TcpStream, Problem> {
    // Such a name would move the rest of the URL. An address has colons, and is parsed before.
    let is_name = !host.starts_with('[') && host.parse::<Ipv6Addr>().is_err();
    if port == 0 || (is_name && host.contains([':', '/', '@', '?', '#', '\\'])) {
        return Err(Problem::NoHost);
    }
    let bare: std::result::Result<Ipv6Addr, _> = host.parse();
    let host = if bare.is_ok() { format!("[{host}]") } else { host.to_owned() };
    let url = Url::parse(&format!("http://{host}:{port}/")).map_err(|_| Problem::NoHost)?;
    let reach = Reach::of(&url, allowed).map_err(|it| refused(&it, port))?;
    let addresses = match url.host() {
        Some(url::Host::Ipv4(address)) => vec![(address, port).into()],
        Some(url::Host::Ipv6(address)) => vec![(address, port).into()],
        Some(url::Host::Domain(name)) => {
            let found = tokio::time::timeout(CONNECT, resolve(name.to_owned(), look_ups)).await;
            found.map_err(|_| Problem::NoName)?.map_err(|_| Problem::NoName)?
        }
        None => return Err(Problem::NoHost),
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
        Some(refusal) if !tried => Err(refused(&refusal, port)),
        _ if tried => Err(Problem::Unreachable),
        _ => Err(Problem::NoName),
    }
}

/// In words of browsers, whose rules are the worker's and not a manifest's.
fn refused(refusal: &Refusal, port: u16) -> Problem {
    Problem::Refused(match refusal {
        Refusal::Address { host, kind } => {
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
        let seen = Seen::default();
        let refused = |host: &str| seen.unmade(host.to_owned(), &Problem::Refused(format!("'{host}' is refused")));
        let why = |before, host: &str| seen.unmade_since(before, host);
        assert_eq!(why(0, "a.example"), None);
        seen.unmade("a.example".to_owned(), &Problem::Unreachable);
        // A page in another tab.
        refused("10.0.0.1");
        assert_eq!(why(0, "a.example"), Some(Why::Failed("a.example: nothing answers there".to_owned())));
        assert_eq!(why(0, "10.0.0.1"), Some(Why::Refused("'10.0.0.1' is refused".to_owned())));
        // It answered, and led to another host.
        assert_eq!(why(1, "A.example"), Some(Why::Refused("'10.0.0.1' is refused".to_owned())));
        assert_eq!(why(2, "a.example"), None);
    }
}
