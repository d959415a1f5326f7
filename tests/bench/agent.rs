//! Conversations beside plain calls: what two hundred chats at once cost those who only call. The model and those who chat
//! stand for other machines: they have a thread of their own, at a low priority, and delay no plain call of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::elsewhere::elsewhere;
use openskill_tests::fixtures;
use openskill_tests::quantile::quantile;
use openskill_tests::system::{Setup, System, request};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct AgentSettings {
    /// Conversations at once
    #[arg(long, default_value_t = 200)]
    chats: usize,
    /// Plain calls in flight
    #[arg(long, default_value_t = 4)]
    calls: usize,
    /// Rounds, each without conversations and then with them
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Milliseconds that the model takes for an answer
    #[arg(long, default_value_t = 200)]
    model_ms: u64,
}

/// Runs the rounds and prints their ratios.
pub(crate) fn run(settings: &AgentSettings) {
    let others = elsewhere();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let model = others.spawn(model(Duration::from_millis(settings.model_ms))).await.expect("the model starts");
        let setup = Setup::with_skills(&[&fixtures()]).at_its_own_pace();
        let setup = setup.with("OPENAI_API_BASE", model.url("/v1")).with("OPENAI_MODEL", "scripted");
        let system = Arc::new(setup.start().await);
        system.has_skill("in_echo").await;
        println!(
            "| round | plain calls p50 | p99 | beside {} chats p50 | p99 | p99 ratio | slowest | slowest list | chats a second |",
            settings.chats
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        for round in 1..=settings.rounds {
            let alone = measure(&system, settings, 0, &others).await;
            let beside = measure(&system, settings, settings.chats, &others).await;
            println!(
                "| {round} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} | {:.0} ms | {:.0} ms | {:.0} |",
                alone.p50 * 1e3,
                alone.p99 * 1e3,
                beside.p50 * 1e3,
                beside.p99 * 1e3,
                beside.p99 / alone.p99,
                beside.slowest * 1e3,
                beside.slowest_list * 1e3,
                beside.chats_a_second
            );
            assert_eq!(beside.failed, 0, "chats failed");
        }
    });
}

struct Measured {
    p50: f64,
    p99: f64,
    /// A call that waits for a thread of the gateway which is blocked takes at least as long.
    slowest: f64,
    /// The same of the agent's own thread, which answers what conversations there are.
    slowest_list: f64,
    chats_a_second: f64,
    failed: usize,
}

/// Plain calls for some seconds, beside so many conversations.
async fn measure(system: &Arc<System>, settings: &AgentSettings, chats: usize, others: &Handle) -> Measured {
    let ends = Arc::new(AtomicBool::new(false));
    let (done, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut talking = JoinSet::new();
    for _ in 0..chats {
        let (system, ends, done, failed) =
            (Arc::clone(system), Arc::clone(&ends), Arc::clone(&done), Arc::clone(&failed));
        let chats = async move {
            while !ends.load(Ordering::Relaxed) {
                let count = if chat(&system).await { &done } else { &failed };
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        talking.spawn_on(chats, others);
    }
    // All of them have begun.
    tokio::time::sleep(Duration::from_millis(if chats > 0 { 1000 } else { 200 })).await;
    let (begun, before) = (Instant::now(), done.load(Ordering::Relaxed));
    let until = begun + Duration::from_secs(settings.seconds);
    let lists = tokio::spawn(slowest_list(Arc::clone(system), until));
    let mut calling = JoinSet::new();
    for _ in 0..settings.calls {
        let mut client = system.skills().await;
        calling.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let begun = Instant::now();
                let result =
                    client.invoke(request("in_echo", json!({ "text": "hello" }))).await.expect("it is answered");
                assert!(result.into_inner().success);
                took.push(begun.elapsed().as_secs_f64());
            }
            took
        });
    }
    let all: Vec<f64> = calling.join_all().await.into_iter().flatten().collect();
    let chats_a_second = (done.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    let slowest_list = lists.await.expect("lists are answered");
    ends.store(true, Ordering::Relaxed);
    talking.join_all().await;
    let (failed, slowest) = (failed.load(Ordering::Relaxed), all.iter().copied().fold(0.0, f64::max));
    let (p50, p99) = (quantile(all.clone(), 0.5), quantile(all, 0.99));
    Measured { p50, p99, slowest, slowest_list, chats_a_second, failed }
}

/// Asks which conversations there are, every few milliseconds.
async fn slowest_list(system: Arc<System>, until: Instant) -> f64 {
    let mut slowest = Duration::ZERO;
    while Instant::now() < until {
        let begun = Instant::now();
        assert_eq!(system.get("/agent/conversations?limit=1").await.status, 200);
        slowest = slowest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    slowest.as_secs_f64()
}

/// One turn with one call. Whether it ended well.
async fn chat(system: &System) -> bool {
    let body = json!({ "message": "repeat this" }).to_string();
    let answer = system.post("/agent/chat", &[("content-type", "application/json")], body).await;
    answer.status == 200 && answer.json()["done"]["end"] == "completed"
}

/// A model that calls `in_echo` once, and then answers.
async fn model(takes: Duration) -> Backend {
    Backend::start(move |seen: &Seen| {
        let body = seen.json();
        let is_told = body["messages"].as_array().and_then(|it| it.last()).is_some_and(|it| it["role"] == "tool");
        let (delta, reason) = if is_told {
            (json!({ "content": "I repeated it." }), "stop")
        } else {
            let call = json!({ "name": "in_echo", "arguments": "{\"text\":\"this\"}" });
            (json!({ "tool_calls": [{ "index": 0, "id": "c", "type": "function", "function": call }] }), "tool_calls")
        };
        let chunk: Value = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
        let frames = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        let later = async move {
            tokio::time::sleep(takes).await;
            frames.into()
        };
        Reply::pieces("text/event-stream", futures_util::stream::once(later))
    })
    .await
}
