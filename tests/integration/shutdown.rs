//! SIGTERM: calls in flight finish, then the exit status is 0.

use std::time::Duration;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::alone::alone;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, data, request};
use openskill_tests::wait::{until, until_true};
use serde_json::json;

#[tokio::test]
async fn calls_in_flight_finish_before_shutdown_and_the_exit_status_is_zero() {
    let mut system = Setup::up().start().await;
    let id = |number: i32| format!("inflight-{number}-{}", std::process::id());
    let mut running = Vec::new();
    for number in 0..6 {
        let call = InvokeRequest { call_id: id(number), ..request("naps", json!({"seconds": 1.5})) };
        let mut client = system.skills().await;
        running.push(tokio::spawn(async move { client.invoke(call).await.unwrap().into_inner() }));
    }
    until_true("all skills run", PATIENCE, || (0..6).all(|number| !processes::of_call(&id(number)).is_empty())).await;
    system.process.terminate();
    for call in running {
        assert_eq!(data(&call.await.unwrap()), json!({"slept": 1.5}));
    }
    assert_eq!(system.process.ended().await.code(), Some(0), "{}", system.process.log.text());
    assert!(tokio::net::TcpStream::connect(system.address).await.is_err());
}

#[tokio::test]
async fn a_lame_duck_says_that_it_is_not_ready_and_serves_new_connections_until_it_drains() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let mut system = Setup::up().with("OPENSKILL_LAME_DUCK_MS", 12_000).start().await;
    let terminated = std::time::Instant::now();
    system.process.terminate();
    // Each request has a connection of its own.
    until("it says so", PATIENCE, || async { (system.get("/readyz").await.status == 503).then_some(()) }).await;
    assert_eq!(system.get("/readyz").await.json()["status"], "draining");
    let health = HealthClient::new(system.channel().await);
    until("gRPC health says so", PATIENCE, || async {
        let status = health.clone().check(HealthCheckRequest::default()).await.unwrap().into_inner().status;
        (status == ServingStatus::NotServing as i32).then_some(())
    })
    .await;
    while terminated.elapsed() < Duration::from_secs(2) {
        assert_eq!(system.call("in_echo", json!({"n": 1})).await.json()["data"], json!({"n": 1}));
        let calls = tokio_stream::iter([request("in_echo", json!({}))]);
        let mut events = system.skills().await.invoke_many(calls).await.unwrap().into_inner();
        while events.message().await.expect("the stream is served to its end").is_some() {}
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(system.process.ended().await.code(), Some(0), "{}", system.process.log.text());
    assert!(terminated.elapsed() >= Duration::from_secs(12));
    assert!(tokio::net::TcpStream::connect(system.address).await.is_err());
}

#[tokio::test]
async fn streams_without_a_call_do_not_delay_shutdown() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    let mut system = Setup::up().start().await;
    let mut client = system.skills().await;
    let mut watch = client.watch_skills(openskill_proto::v1::WatchSkillsRequest::default()).await.unwrap().into_inner();
    let (_open, calls) = tokio::sync::mpsc::channel::<InvokeRequest>(1);
    let many = client.invoke_many(tokio_stream::wrappers::ReceiverStream::new(calls)).await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(system.channel().await);
    let health_watch = health.watch(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
    let (_idle, questions) = tokio::sync::mpsc::channel(1);
    let mut reflection = ServerReflectionClient::new(system.channel().await);
    let questions = tokio_stream::wrappers::ReceiverStream::new(questions);
    let answers = reflection.server_reflection_info(questions).await.unwrap();
    let begun = std::time::Instant::now();
    system.process.terminate();
    // The watch just ends; the stream of calls reports that it was cut short.
    while let Ok(Some(_)) = watch.message().await {}
    assert_eq!(many.into_inner().message().await.unwrap_err().code(), tonic::Code::Unavailable);
    assert_eq!(system.process.ended().await.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop((health_watch, answers));
}

#[tokio::test]
async fn shutdown_finishes_every_accepted_call_of_a_stream_and_fails_the_rest() {
    use openskill_proto::v1::invoke_event::Event;
    let mut system = Setup::up().start().await;
    let call =
        |number: u32| InvokeRequest { call_id: format!("call-{number}"), ..request("in_wait", json!({"ms": 100})) };
    let mut client = system.skills().await;
    let mut events = client.invoke_many(tokio_stream::iter((0..5000).map(call))).await.unwrap().into_inner();
    let (mut accepted, mut results) = (0, 0);
    let status = loop {
        match events.message().await {
            Ok(Some(event)) => match event.event {
                Some(Event::Accepted(_)) => accepted += 1,
                Some(Event::Result(result)) => {
                    assert!(result.success, "{result:?}");
                    results += 1;
                    if results == 20 {
                        system.process.terminate();
                    }
                }
                _ => {}
            },
            Ok(None) => panic!("the stream ended without an error after {accepted} of 5000 calls"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert_eq!(accepted, results);
    assert!(results < 5000);
    assert_eq!(system.process.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_call_past_the_drain_timeout_is_cancelled_with_its_skill() {
    let _alone = alone();
    let mut system = Setup::up().with("OPENSKILL_DRAIN_TIMEOUT_MS", 500).start().await;
    let call_id = format!("longer-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), ..request("never_ends", json!({})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the skill runs", PATIENCE, || !processes::of_call(&call_id).is_empty()).await;
    system.process.terminate();
    assert_eq!(system.process.ended().await.code(), Some(0));
    processes::gone(&call_id, Duration::from_secs(1)).await;
    let _ = running.await;
}

#[tokio::test]
async fn a_worker_kills_what_outlives_its_drain_timeout_even_if_stopped() {
    let _alone = alone();
    use openskill_proto::v1::ExecuteRequest;
    use openskill_proto::v1::worker_service_client::WorkerServiceClient;
    let port = Port::reserve();
    let (listen, skills) = (port.address().to_string(), openskill_tests::fixtures().display().to_string());
    let mut worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills])
        .with("OPENSKILL_DRAIN_TIMEOUT_MS", 300)
        .spawn();
    worker.log.line(&["worker ready"]).await;
    let call_id = format!("alone-{}", std::process::id());
    let call = ExecuteRequest {
        skill_id: "stops_parent".to_owned(),
        call_id: call_id.clone(),
        input_json: "{}".into(),
        timeout_ms: 60_000,
        ..ExecuteRequest::default()
    };
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{listen}")).unwrap();
    let channel = openskill_tests::wait::until("it listens", PATIENCE, || async { channel.connect().await.ok() }).await;
    let running = tokio::spawn(async move { WorkerServiceClient::new(channel).execute(call).await });
    until_true("the skill runs", PATIENCE, || !processes::of_call(&call_id).is_empty()).await;
    worker.terminate();
    assert_eq!(worker.ended().await.code(), Some(0));
    processes::gone(&call_id, Duration::from_secs(1)).await;
    let _ = running.await;
}

#[tokio::test]
async fn a_second_signal_shuts_down_at_once() {
    let mut system = Setup::up().start().await;
    let call_id = format!("impatient-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), ..request("never_ends", json!({})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the skill runs", PATIENCE, || !processes::of_call(&call_id).is_empty()).await;
    system.process.terminate();
    system.process.log.line(&["shutting down"]).await;
    system.process.terminate();
    assert_eq!(system.process.ended().await.code(), Some(130));
    processes::gone(&call_id, PATIENCE).await;
    let _ = running.await;
}
