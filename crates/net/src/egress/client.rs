//! HTTP clients with connection pools: one for each runtime and each [`Reach`].
//!
//! A pooled connection is served by a task of the runtime that opened it. Each shard has its own runtime and
//! therefore its own clients: calls do not wait for another thread, a dropped call closes its connection at once,
//! and no shard uses a connection whose runtime has ended. The cost is one more connection per shard, which is
//! less than two wake-ups per call.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot};

use super::reach::Reach;
pub use super::transport::IDLE;
use super::transport::{CONNECT_TIMEOUT, IDLE_PER_HOST, MAX_HEADER_LIST_BYTES, MAX_HEADERS, OUR_NAME, Transport};
use crate::tls::install_provider;

/// The maximum number of clients of a worker. Each one contains the system's certificates. Manifests with an empty
/// allow list share one client.
const MAX_CLIENTS: usize = 128;

/// The maximum number of concurrent lookups of a worker. The system's resolver can't be cancelled.
const LOOK_UPS: usize = 32;

/// The maximum number of concurrent lookups of one skill. A server could redirect to any number of names that
/// never resolve.
const LOOK_UPS_OF_SKILL: usize = 4;

tokio::task_local! {
    /// The lookup permits of the skill that sends the current request. Skills share clients, so the client does
    /// not know the skill.
    static OF_SKILL: Arc<Semaphore>;
}

/// The HTTP clients of a worker.
pub struct Clients {
    by_key: Mutex<HashMap<ClientKey, PooledClient>>,
    look_ups: Arc<Semaphore>,
    of_skills: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A runtime, and the addresses that its client may reach.
type ClientKey = (Id, Reach);

#[derive(Clone)]
struct PooledClient {
    client: Arc<OnceCell<Transport>>,
    used: Instant,
}

impl Default for Clients {
    fn default() -> Self {
        let look_ups = Arc::new(Semaphore::new(LOOK_UPS));
        Self { by_key: Mutex::default(), look_ups, of_skills: Mutex::default() }
    }
}

impl Clients {
    /// Runs `requests` on behalf of a skill, and limits their lookups.
    pub async fn for_skill<T>(&self, skill_id: &str, requests: impl Future<Output = T>) -> T {
        OF_SKILL.scope(self.look_ups_of(skill_id), requests).await
    }

    fn look_ups_of(&self, skill_id: &str) -> Arc<Semaphore> {
        let mut of_skills = self.of_skills.lock();
        let look_ups = of_skills.entry(skill_id.to_owned());
        Arc::clone(look_ups.or_insert_with(|| Arc::new(Semaphore::new(LOOK_UPS_OF_SKILL))))
    }

    /// Returns the client of the current runtime for this reach. It does not follow redirects or use proxies.
    ///
    /// # Errors
    /// The system lacks something that a client requires.
    pub async fn get(&self, reach: Reach) -> Result<Transport, String> {
        let (key, now) = ((Handle::current().id(), reach.clone()), Instant::now());
        let cell = {
            let mut kept = self.by_key.lock();
            make_room(&mut kept, &key);
            let kept = kept.entry(key).or_insert_with(|| PooledClient { client: Arc::default(), used: now });
            kept.used = now;
            Arc::clone(&kept.client)
        };
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let look_ups = Arc::clone(&self.look_ups);
        // Building a client reads the system's certificates from disk.
        let build = || async {
            tokio::task::spawn_blocking(move || build(reach, look_ups)).await.map_err(|error| error.to_string())
        };
        cell.get_or_try_init(build).await.cloned()
    }

    /// Drops clients that were idle for at least `idle`.
    pub fn tidy(&self, idle: Duration) {
        let mut kept = self.by_key.lock();
        kept.retain(|_, it| it.used.elapsed() < idle);
        drop(kept);
        // Running requests and abandoned lookups hold references to a skill's semaphore.
        let mut of_skills = self.of_skills.lock();
        of_skills.retain(|_, it| Arc::strong_count(it) > 1);
    }

    /// Drops all clients.
    pub fn clear(&self) {
        self.by_key.lock().clear();
    }
}

fn make_room(kept: &mut HashMap<ClientKey, PooledClient>, key: &ClientKey) {
    if kept.len() >= MAX_CLIENTS && !kept.contains_key(key) {
        let oldest = kept.iter().min_by_key(|it| it.1.used).map(|it| it.0.clone());
        oldest.and_then(|oldest| kept.remove(&oldest));
    }
}

/// Builds a reqwest client for libraries that require one. It connects only where `reach` allows. Use it only for
/// the URL from which `reach` was built, because [`Reach::for_url`] has already checked a host that is an address.
/// `redirects` must stay within the origin.
///
/// # Errors
/// The system lacks something that a client requires.
pub fn guarded_client(reach: Reach, redirects: impl Fn() -> Policy) -> Result<reqwest::Client, String> {
    reqwest_client(Arc::new(Guard { reach, look_ups: Arc::new(Semaphore::new(LOOK_UPS)) }), redirects)
}

/// A client for servers that the operator has configured, such as model providers: wherever they are. It follows no
/// redirects, which would send keys to other servers.
///
/// # Errors
/// The system lacks what a client requires.
pub fn operator_client() -> Result<reqwest::Client, String> {
    reqwest_client(Arc::new(AnyAddress { look_ups: Arc::new(Semaphore::new(LOOK_UPS)) }), Policy::none)
}

fn reqwest_client<R: Resolve + 'static>(
    resolver: Arc<R>,
    redirects: impl Fn() -> Policy,
) -> Result<reqwest::Client, String> {
    install_provider();
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
        // Without the system's certificates, https servers can't be trusted. Plain http does not need them.
        tracing::warn!(%error, "no usable root certificates on this system: HTTPS requests will fail");
        builder().tls_certs_only([]).build().map_err(|error| error.to_string())
    })
}

fn build(reach: Reach, look_ups: Arc<Semaphore>) -> Transport {
    install_provider();
    Transport::new(Arc::new(Guard { reach, look_ups }))
}

/// Resolves names, and returns all addresses.
struct AnyAddress {
    look_ups: Arc<Semaphore>,
}

impl Resolve for AnyAddress {
    fn resolve(&self, name: Name) -> Resolving {
        let look_up = resolve(name.as_str().to_owned(), Arc::clone(&self.look_ups));
        Box::pin(async move { Ok(Box::new(look_up.await?.into_iter()) as Addrs) })
    }
}

/// A resolver that returns only addresses that a skill may reach. The client connects to exactly these addresses.
struct Guard {
    reach: Reach,
    look_ups: Arc<Semaphore>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, look_ups) = (self.reach.clone(), Arc::clone(&self.look_ups));
        // Read it here, in the task that sends the request, because the future may be polled in another task.
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

/// Resolves a name without checking its addresses. `look_ups` limits concurrent lookups.
///
/// # Errors
/// The name has no address, or the system can't resolve it.
pub async fn resolve(host: String, look_ups: Arc<Semaphore>) -> std::io::Result<Vec<SocketAddr>> {
    look_up(host, None, look_ups).await
}

/// Resolves on a detached thread, because a runtime that shuts down would wait for its blocking threads.
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
    use super::super::reach::{AddressKind, EgressRefusal};
    use super::*;
    use crate::egress::allow::Allowed;

    fn reach(url: &str, allowed: &[String]) -> Reach {
        Reach::for_url(&Url::parse(url).unwrap(), &Allowed::parse(allowed).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_loopback_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://localhost:{port}/");
        let client = guarded_client(reach(&url, &[]), Policy::none).unwrap();
        let error = client.get(&url).send().await.unwrap_err();
        let refusal = refusal(&error).expect("a refusal").clone();
        assert_eq!(refusal, EgressRefusal::Address { host: "localhost".to_owned(), kind: AddressKind::Loopback });
        let client = guarded_client(reach(&url, &[format!("localhost:{port}")]), Policy::none).unwrap();
        let request = tokio::spawn(client.get(&url).send());
        listener.accept().await.unwrap();
        request.abort();
    }

    #[tokio::test]
    async fn hanging_lookups_of_one_skill_do_not_delay_another() {
        let (clients, url) = (Clients::default(), "http://localhost:9/");
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
        assert!(clients.of_skills.lock().contains_key("slow"));
        drop(hanging);
        assert!(refusal(&slow.await.unwrap_err()).is_some());
        clients.tidy(IDLE);
    }

    #[tokio::test]
    async fn skills_with_the_same_reach_share_a_client_and_idle_clients_are_released() {
        let clients = Clients::default();
        let allowed = ["10.0.0.0/8".to_owned()];
        for url in ["http://a.example/", "https://b.example/"] {
            clients.get(reach(url, &[])).await.unwrap();
        }
        clients.get(reach("http://a.example/", &allowed)).await.unwrap();
        let count = || clients.by_key.lock().len();
        assert_eq!(count(), 2);
        clients.tidy(IDLE);
        assert_eq!(count(), 2);
        clients.tidy(Duration::ZERO);
        assert_eq!(count(), 0);
        for number in 0..2 * MAX_CLIENTS {
            let reach = reach("http://a.example/", &[format!("10.{}.{}.1", number / 256, number % 256)]);
            let key = (Handle::current().id(), reach.clone());
            // Built manually, to avoid reading the system's certificates repeatedly.
            make_room(&mut clients.by_key.lock(), &key);
            clients.by_key.lock().insert(key, PooledClient { client: Arc::default(), used: Instant::now() });
        }
        assert_eq!(count(), MAX_CLIENTS);
    }
}
