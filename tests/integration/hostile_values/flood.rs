//! A client that sends arguments of many small values does not hold up its neighbours, nor fill the gateway's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::alone::alone;
use openskill_tests::processes;
use openskill_tests::quantile::quantile;
use openskill_tests::soak::count;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::until_true;
use serde_json::json;
use tonic::transport::Channel;

/// What the flood sends, and how often.
const BODY_BYTES: usize = 4 << 20;
const PACE: Duration = Duration::from_millis(90);

/// How much slower its calls may get: before the bound, the median was thirty times as slow. The rest is for a machine that
/// others use, and a binary that is not optimized.
const FACTOR: u32 = 4;
const SLACK: Duration = Duration::from_millis(15);

/// How often the comparison may be made.
const TRIES: usize = 3;

/// The gateway's resident memory may reach this, in KiB.
const MAX_MEMORY_KIB: u64 = 200 * 1024;

/// A flood, until it is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Flood {
    /// Sends bodies at their pace, whether or not earlier ones are answered.
    fn start(system: &System, body: String) -> Self {
        let flood = Self { stop: Arc::default(), answered: Arc::default() };
        let (stop, answered, address) = (Arc::clone(&flood.stop), Arc::clone(&flood.answered), system.address);
        let body = bytes::Bytes::from(body);
        tokio::spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            while !stop.load(Ordering::Relaxed) {
                pace.tick().await;
                let (body, answered) = (body.clone(), Arc::clone(&answered));
                tokio::spawn(async move {
                    let path = "/skills/in_echo:invoke";
                    openskill_tests::rest::send(address, http::Method::POST, path, &[], body).await;
                    answered.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        flood
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The median and the 99th percentile of the neighbour's calls, one after the other.
async fn latency(client: &mut SkillServiceClient<Channel>) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..count(150, 5000) {
        // In a session of its own: on a slow machine, the flood holds all permits of its session.
        let call = InvokeRequest { session_id: "neighbour".into(), ..request("in_echo", json!({"n": 1})) };
        let begun = Instant::now();
        let result = client.invoke(call).await.unwrap().into_inner();
        assert!(result.success, "{result:?}");
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (quantile(times.clone(), 0.5), quantile(times, 0.99))
}

async fn is_harmless(body: String) {
    let _alone = alone();
    let system = Setup::up().start().await;
    let mut client = system.skills().await;
    latency(&mut client).await;
    for attempt in 1..=TRIES {
        let quiet = latency(&mut client).await;
        let flood = Flood::start(&system, body.clone());
        until_true("the flood is there", PATIENCE, || flood.answered.load(Ordering::Relaxed) > 3).await;
        let flooded = latency(&mut client).await;
        let memory = processes::resident_kib(system.process.pid()).unwrap();
        drop(flood);
        assert!(memory < MAX_MEMORY_KIB, "the gateway holds {memory} KiB");
        let within = |quiet: Duration, flooded: Duration| flooded < quiet * FACTOR + SLACK;
        if within(quiet.0, flooded.0) && within(quiet.1, flooded.1) {
            return;
        }
        assert!(attempt < TRIES, "median and 99th percentile were {quiet:?}, and are {flooded:?} beside the flood");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_many_small_values_hardly_slows_its_neighbours() {
    is_harmless(format!("{{\"input\":{{\"a\":[{}1]}}}}", "1,".repeat(BODY_BYTES / 2 - 32))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_small_objects_hardly_slows_its_neighbours() {
    is_harmless(format!("{{\"input\":{{\"a\":[{}1]}}}}", "{\"\":[]},".repeat(BODY_BYTES / 8 - 32))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_just_within_the_bound_hardly_slows_its_neighbours() {
    is_harmless(format!("{{\"input\":{{\"a\":[{}1]}}}}", "{\"\":1},".repeat(49_000))).await;
}
