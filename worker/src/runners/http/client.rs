//! HTTP clients: one for each runtime and each [`Reach`], with a connection pool.
//!
//! A pooled connection is served by a task of the runtime that opened it. Each shard has its own runtime and so its own
//! clients: no call waits for another thread, a dropped call closes its connection at once, and no shard holds a connection
//! whose runtime has ended. The price is one connection more per shard; two wake-ups per call would cost more.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot};

use super::egress::Reach;
use super::transport::{Bounds, OUR_NAME, Transport};

/// The connect timeout. A call's own deadline may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection, and an idle client, is kept.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// How many clients a worker keeps: each holds the system's certificates. Manifests that allow nothing share one.
const MAX_CLIENTS: usize = 128;

/// How many idle connections to one server are kept.
const IDLE_PER_HOST: usize = 64;

/// How large all headers of an answer over HTTP/2 may be, and how many an answer over HTTP/1 may have.
const MAX_HEADER_LIST_BYTES: u32 = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// How many names a worker resolves at a time. The system's resolver cannot be cancelled.
const LOOK_UPS: usize = 32;

/// How many of them one skill may have: a server may redirect to any number of names that never resolve.
const LOOK_UPS_OF_SKILL: usize = 4;

tokio::task_local! {
    /// The lookups of the skill that sends. Skills share clients.
    static OF_SKILL: Arc<Semaphore>;
}

/// The clients of a worker.
pub(crate) struct Clients {
    by_place: Mutex<HashMap<Place, Kept>>,
    look_ups: Arc<Semaphore>,
    of_skills: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A runtime, and what is allowed.
type Place = (Id, Reach);

#[derive(Clone)]
struct Kept {
    client: Arc<OnceCell<Transport>>,
    used: Instant,
}

impl Clients {
    pub(crate) fn new() -> Self {
        let look_ups = Arc::new(Semaphore::new(LOOK_UPS));
        Self { by_place: Mutex::default(), look_ups, of_skills: Mutex::default() }
    }

    /// Sends requests for a skill, and bounds its lookups.
    pub(crate) async fn for_skill<T>(&self, skill_id: &str, requests: impl Future<Output = T>) -> T {
        let of_skill = self.look_ups_of(skill_id);
        OF_SKILL.scope(of_skill, requests).await
    }

    fn look_ups_of(&self, skill_id: &str) -> Arc<Semaphore> {
        let mut of_skills = self.of_skills.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_skills.get(skill_id) {
            return Arc::clone(known);
        }
        let new = Arc::new(Semaphore::new(LOOK_UPS_OF_SKILL));
        of_skills.insert(skill_id.to_owned(), Arc::clone(&new));
        new
    }

    /// The client of this runtime for this reach. It follows no redirects and uses no proxy.
    ///
    /// # Errors
    /// The system lacks what a client needs.
    pub(crate) async fn get(&self, reach: Reach) -> Result<Transport, String> {
        let (key, now) = ((Handle::current().id(), reach.clone()), Instant::now());
        let cell = {
            let mut kept = self.by_place.lock().unwrap_or_else(PoisonError::into_inner);
            make_room(&mut kept, &key);
            let kept = kept.entry(key).or_insert_with(|| Kept { client: Arc::default(), used: now });
            kept.used = now;
            Arc::clone(&kept.client)
        };
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let look_ups = Arc::clone(&self.look_ups);
        // The system's certificates are read from disk.
        let build = || async {
            tokio::task::spawn_blocking(move || build(reach, look_ups)).await.map_err(|error| error.to_string())
        };
        cell.get_or_try_init(build).await.cloned()
    }

    /// Releases clients that were idle for this long.
    pub(crate) fn tidy(&self, idle: Duration) {
        let mut kept = self.by_place.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, it| it.used.elapsed() < idle);
        drop(kept);
        // Requests hold it, and so do abandoned lookups.
        let mut of_skills = self.of_skills.lock().unwrap_or_else(PoisonError::into_inner);
        of_skills.retain(|_, it| Arc::strong_count(it) > 1);
    }

    /// Releases all clients.
    pub(crate) fn clear(&self) {
        self.by_place.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn make_room(kept: &mut HashMap<Place, Kept>, place: &Place) {
    if kept.len() >= MAX_CLIENTS && !kept.contains_key(place) {
        let oldest = kept.iter().min_by_key(|it| it.1.used).map(|it| it.0.clone());
        oldest.and_then(|oldest| kept.remove(&oldest));
    }
}

/// A client of reqwest's own, for a library that wants one. It connects only where `reach` allows and is for a single URL, the
/// one `reach` comes from: [`Reach::of`] has already checked a host that is an address. `redirects` stays within its origin.
///
/// # Errors
/// The system lacks what a client needs.
pub(crate) fn guarded_client(reach: Reach, redirects: impl Fn() -> Policy) -> Result<reqwest::Client, String> {
    prepare_cryptography();
    let resolver = Arc::new(Guard { reach, look_ups: Arc::new(Semaphore::new(LOOK_UPS)) });
    let builder = || {
        reqwest::Client::builder()
            .dns_resolver(Arc::clone(&resolver))
            .redirect(redirects())
            .no_proxy()
            .referer(false)
            .user_agent(OUR_NAME)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
    };
    builder().build().or_else(|error| {
        // Without the system's certificates no https server can be trusted, but http has no need of them.
        tracing::warn!(%error, "the system has no usable certificates: https servers will fail");
        builder().tls_certs_only([]).build().map_err(|error| error.to_string())
    })
}

fn build(reach: Reach, look_ups: Arc<Semaphore>) -> Transport {
    prepare_cryptography();
    let bounds = Bounds {
        connect: CONNECT_TIMEOUT,
        idle: IDLE,
        idle_per_host: IDLE_PER_HOST,
        headers: MAX_HEADERS,
        header_list_bytes: MAX_HEADER_LIST_BYTES,
    };
    Transport::new(Arc::new(Guard { reach, look_ups }), bounds)
}

fn prepare_cryptography() {
    static CRYPTOGRAPHY: Once = Once::new();
    CRYPTOGRAPHY.call_once(|| {
        // Another thread may have installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Resolves names, and passes only addresses that a skill may reach. The client connects to exactly these.
struct Guard {
    reach: Reach,
    look_ups: Arc<Semaphore>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, look_ups) = (self.reach.clone(), Arc::clone(&self.look_ups));
        // Read now, in the task that sends: the future may be polled elsewhere.
        let of_skill = OF_SKILL.try_with(Arc::clone).ok();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let own = match of_skill {
                Some(of_skill) => Some(of_skill.acquire_owned().await?),
                None => None,
            };
            let found = look_up(host.clone(), own, look_ups).await?;
            let (mut open, mut refusal) = (Vec::with_capacity(found.len()), None);
            for address in found {
                match reach.check_address(&host, address.ip()) {
                    Ok(()) => open.push(address),
                    Err(refused) => refusal = Some(refused),
                }
            }
            match refusal {
                Some(refusal) if open.is_empty() => Err(Box::<dyn std::error::Error + Send + Sync>::from(refusal)),
                _ => Ok(Box::new(open.into_iter()) as Addrs),
            }
        })
    }
}

/// The addresses of a name, within `look_ups` at a time. They are not checked.
///
/// # Errors
/// It has none, or the system can't say.
pub(crate) async fn resolve(host: String, look_ups: Arc<Semaphore>) -> std::io::Result<Vec<SocketAddr>> {
    look_up(host, None, look_ups).await
}

/// Resolves on a detached thread: a runtime that shuts down would wait for its blocking threads.
async fn look_up(
    host: String,
    own: Option<OwnedSemaphorePermit>,
    look_ups: Arc<Semaphore>,
) -> std::io::Result<Vec<SocketAddr>> {
    let permit = look_ups.acquire_owned().await.map_err(std::io::Error::other)?;
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("look-up".to_owned()).spawn(move || {
        let found = (host.as_str(), 0).to_socket_addrs().map(Iterator::collect);
        drop((permit, own));
        let _ = sender.send(found);
    })?;
    receiver.await.map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use url::Url;

    use super::super::cause::refusal;
    use super::super::egress::{Kind, Refusal};
    use super::*;
    use crate::manifest::http::Allowed;

    fn reach(url: &str, allowed: &[String]) -> Reach {
        Reach::of(&Url::parse(url).unwrap(), &Allowed::parse(allowed).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_loopback_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://localhost:{port}/");
        let client = guarded_client(reach(&url, &[]), Policy::none).unwrap();
        let error = client.get(&url).send().await.unwrap_err();
        let refusal = refusal(&error).expect("a refusal").clone();
        assert_eq!(refusal, Refusal::Address { host: "localhost".to_owned(), kind: Kind::Loopback });
        let client = guarded_client(reach(&url, &[format!("localhost:{port}")]), Policy::none).unwrap();
        let request = tokio::spawn(client.get(&url).send());
        listener.accept().await.unwrap();
        request.abort();
    }

    #[tokio::test]
    async fn hanging_lookups_of_one_skill_do_not_delay_another() {
        let (clients, url) = (Clients::new(), "http://localhost:9/");
        let client = clients.get(reach(url, &[])).await.unwrap();
        let hanging = clients.look_ups_of("slow").acquire_many_owned(LOOK_UPS_OF_SKILL as u32).await.unwrap();
        let request = || reqwest::Request::new(reqwest::Method::GET, Url::parse(url).unwrap());
        let send = |skill| clients.for_skill(skill, client.execute(request()));
        let mut slow = std::pin::pin!(send("slow"));
        let other = tokio::select! {
            _ = &mut slow => panic!("it looked up a fifth name"),
            sent = send("other") => sent,
        };
        assert!(refusal(&other.unwrap_err()).is_some());
        clients.tidy(IDLE);
        assert!(clients.of_skills.lock().unwrap().contains_key("slow"));
        drop(hanging);
        assert!(refusal(&slow.await.unwrap_err()).is_some());
        clients.tidy(IDLE);
    }

    #[tokio::test]
    async fn skills_with_the_same_reach_share_a_client_and_idle_clients_are_released() {
        let clients = Clients::new();
        let allowed = ["10.0.0.0/8".to_owned()];
        for url in ["http://a.example/", "https://b.example/"] {
            clients.get(reach(url, &[])).await.unwrap();
        }
        clients.get(reach("http://a.example/", &allowed)).await.unwrap();
        let count = || clients.by_place.lock().unwrap().len();
        assert_eq!(count(), 2);
        clients.tidy(IDLE);
        assert_eq!(count(), 2);
        clients.tidy(Duration::ZERO);
        assert_eq!(count(), 0);
        for number in 0..2 * MAX_CLIENTS {
            let reach = reach("http://a.example/", &[format!("10.{}.{}.1", number / 256, number % 256)]);
            let key = (Handle::current().id(), reach.clone());
            // Made by hand: the system's certificates are not read so often.
            make_room(&mut clients.by_place.lock().unwrap(), &key);
            clients.by_place.lock().unwrap().insert(key, Kept { client: Arc::default(), used: Instant::now() });
        }
        assert_eq!(count(), MAX_CLIENTS);
    }
}
