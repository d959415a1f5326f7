//! Certificates that are replaced while the gateway serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::certs::{Certs, Client};
use openskill_tests::system::{PATIENCE, System, request};
use openskill_tests::wait::{until, until_true};
use serde_json::json;

use super::up;

/// What the gateway shows to a new client.
async fn shown(client: &Client, system: &System) -> Vec<u8> {
    let stream = client.connect(system.address, &["h2"]).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn under_load_no_call_fails() {
    let (certs, next) = (Certs::make(), Certs::make());
    let system = up(&certs).start().await;
    certs.trust(&next);
    let client = certs.client();
    let before = shown(&client, &system).await;
    let (stop, finished) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (client, stop, finished, address) = (client.clone(), stop.clone(), finished.clone(), system.address);
        load.spawn(async move {
            // Kept connections, new ones for each few calls, and REST.
            let kept = SkillServiceClient::new(client.channel(address).await.unwrap());
            while !stop.load(Ordering::Relaxed) {
                let mut skills = match number % 2 {
                    0 => kept.clone(),
                    _ => SkillServiceClient::new(client.channel(address).await.unwrap()),
                };
                for _ in 0..5 {
                    let called = skills.invoke(request("in_echo", json!({"n": 1}))).await.unwrap().into_inner();
                    assert!(called.success, "{called:?}");
                }
                let read = client.send(address, Method::GET, "/skills/in_echo", &[], "").await;
                assert_eq!(read.status, 200);
                finished.fetch_add(6, Ordering::Relaxed);
            }
        });
    }
    until_true("calls run", PATIENCE, || finished.load(Ordering::Relaxed) > 100).await;
    // The certificate first, and its key after a while: in between, the old pair is shown.
    certs.replace("gateway.pem", &next.read("gateway.pem"));
    system.process.log.line(&["ERROR", "the TLS certificate", "not the key of"]).await;
    assert_eq!(shown(&client, &system).await, before);
    certs.replace("gateway.key", &next.read("gateway.key"));
    until("the new one is shown", PATIENCE, || async { (shown(&client, &system).await != before).then_some(()) }).await;
    system.process.log.line(&["the TLS certificate", "was reloaded"]).await;
    let so_far = finished.load(Ordering::Relaxed);
    until_true("calls run", PATIENCE, || finished.load(Ordering::Relaxed) > so_far + 100).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.expect("no call failed");
    }
}

#[tokio::test]
async fn a_pair_that_is_half_written_is_never_shown() {
    let (certs, next) = (Certs::make(), Certs::make());
    let system = up(&certs).start().await;
    certs.trust(&next);
    let client = certs.client();
    let before = shown(&client, &system).await;
    let [whole, key] = ["gateway.pem", "gateway.key"].map(|name| next.read(name));
    certs.replace("gateway.key", &key);
    for end in [0, 10, whole.len() / 2, whole.len() - 30] {
        std::fs::write(certs.path("gateway.pem"), &whole[..end]).unwrap();
        // Longer than it takes to notice.
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(shown(&client, &system).await, before, "{end} bytes");
    }
    std::fs::remove_file(certs.path("gateway.pem")).unwrap();
    system.process.log.line(&["ERROR", "gateway.pem", "cannot be read"]).await;
    assert_eq!(shown(&client, &system).await, before);
    certs.replace("gateway.pem", &whole);
    until("the new one is shown", PATIENCE, || async { (shown(&client, &system).await != before).then_some(()) }).await;
}

/// The series of the metric with the ends of certificates, without its name.
async fn ends(certs: &Certs, system: &System) -> Vec<(String, f64)> {
    let answer = certs.client().send(system.address, Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let series = text.lines().filter_map(|it| it.strip_prefix("openskill_certificate_expiry_timestamp_seconds"));
    series.map(|it| it.split_once(' ').unwrap()).map(|(name, end)| (name.to_owned(), end.parse().unwrap())).collect()
}

#[tokio::test]
async fn the_end_of_a_certificate_is_a_metric_and_follows_the_file() {
    let (certs, next) = (Certs::make(), Certs::for_days(3));
    let system = up(&certs).start().await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let days = |ends: &[(String, f64)]| ((ends[0].1 - now) / 86_400.0).round();
    let first = ends(&certs, &system).await;
    assert_eq!((first.len(), first[0].0.as_str()), (1, "{certificate=\"public\"}"));
    assert_eq!(days(&first), 30.0, "{first:?}");
    certs.trust(&next);
    for name in ["gateway.pem", "gateway.key"] {
        certs.replace(name, &next.read(name));
    }
    until("the new end is shown", PATIENCE, || async { (days(&ends(&certs, &system).await) == 3.0).then_some(()) })
        .await;
}
