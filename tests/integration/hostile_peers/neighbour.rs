//! Somebody who makes one call after the other, and how they fare.

use std::time::{Duration, Instant};

use openskill_tests::own_thread::on_own_thread;
use openskill_tests::quantile::quantile;
use openskill_tests::system::{System, request};
use serde_json::json;

/// How long one call of the neighbour may take before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the neighbour got.
#[derive(Debug)]
pub(super) struct Fared {
    pub(super) calls: usize,
    pub(super) ok: usize,
    pub(super) p99: Duration,
}

/// Calls for this long, on a connection and a thread of its own.
pub(super) async fn call_for(system: &System, time: Duration) -> Fared {
    let url = system.url();
    let calling = on_own_thread(move || async move {
        let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = openskill_proto::v1::skill_service_client::SkillServiceClient::new(channel);
        let (begun, mut took, mut ok) = (Instant::now(), Vec::new(), 0);
        while begun.elapsed() < time {
            let called = Instant::now();
            let answer = tokio::time::timeout(PATIENCE, client.invoke(request("in_echo", json!({"n": 1})))).await;
            ok += usize::from(matches!(answer, Ok(Ok(result)) if result.get_ref().success));
            took.push(called.elapsed());
        }
        Ok(Fared { calls: took.len(), ok, p99: quantile(took, 0.99) })
    });
    calling.await.unwrap()
}

/// Whether a neighbour of an attack fares well: 99 % of the calls succeed, and the slowest hundredth takes at most three times
/// as long as before. Ten milliseconds are noise on any machine.
pub(super) fn is_well(quiet: &Fared, beside: &Fared) -> bool {
    let longest = 3 * quiet.p99.max(Duration::from_millis(10));
    beside.calls > 0 && beside.ok * 100 >= beside.calls * 99 && beside.p99 <= longest
}
