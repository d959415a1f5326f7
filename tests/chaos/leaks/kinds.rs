//! Calls of all kinds: valid, invalid and abandoned ones.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::rest;
use openskill_tests::system::code;
use serde_json::{Value, json};

use crate::call::{Caller, Job, any_session};
use crate::random::Random;
use crate::skills;
use crate::stage::Stage;

const DEADLINE: Duration = Duration::from_secs(10);

/// Calls per stream.
const MANY: usize = 20;

/// Makes one call, or one stream of calls, and tells how each ended.
pub(super) async fn any(stage: &Stage, caller: &Caller, random: &mut Random) -> Vec<String> {
    let session = any_session(random);
    match random.below(100) {
        0..4 => many(caller, random).await,
        4..12 => vec![over_rest(stage, random).await],
        12..16 => vec![with_key(caller, random).await],
        16..22 => vec![cancelled(caller, session).await],
        _ => {
            let (skill, input, deadline) = ordinary(random);
            let streamed = random.below(4) == 0;
            vec![
                caller
                    .call(Job { skill, input, session, deadline, streamed, patience: Duration::ZERO })
                    .await
                    .end
                    .label(),
            ]
        }
    }
}

fn ordinary(random: &mut Random) -> (&'static str, Value, Duration) {
    let codes = ["NOT_FOUND", "INTERNAL", "NETWORK_ERROR", "PERMISSION_DENIED"];
    match random.below(20) {
        0 => (skills::WORK, json!({}), DEADLINE),
        1 => (skills::EFFECT, json!({}), DEADLINE),
        2..4 => (skills::FAIL, json!({"code": codes[random.below(codes.len())], "message": "as asked"}), DEADLINE),
        4 => (skills::ECHO, json!({"number": "no number"}), DEADLINE),
        5 => (skills::ECHO, json!({"number": "12"}), DEADLINE),
        6 => (skills::UNKNOWN, json!({}), DEADLINE),
        7 => (skills::WAIT, json!({"ms": 5000}), Duration::from_millis(20)),
        8 if random.below(4) == 0 => (skills::HOLD, json!({}), Duration::from_millis(100)),
        9..14 => (skills::WAIT, json!({"ms": 1 + random.below(10), "steps": random.below(4)}), DEADLINE),
        _ => (skills::ECHO, json!({"number": random.below(1000)}), DEADLINE),
    }
}

/// Cancelled while it runs.
async fn cancelled(caller: &Caller, session: String) -> String {
    let job = Job {
        skill: skills::WAIT,
        input: json!({"ms": 5000}),
        session,
        deadline: DEADLINE,
        streamed: false,
        patience: Duration::ZERO,
    };
    let waited = tokio::time::timeout(Duration::from_millis(20), caller.call(job)).await;
    waited.map_or("cancelled".to_owned(), |called| called.end.label())
}

/// Repeats idempotency keys: the first call runs, the others replay its result.
async fn with_key(caller: &Caller, random: &mut Random) -> String {
    let number = random.below(200);
    let request =
        InvokeRequest { idempotency_key: format!("key-{number}"), ..echo(caller, &json!({"number": number})) };
    match caller.link().1.skills().invoke(request).await {
        Ok(result) => label(result.get_ref()),
        Err(status) => format!("status {:?}", status.code()),
    }
}

async fn many(caller: &Caller, random: &mut Random) -> Vec<String> {
    let number = |index: usize| if index.is_multiple_of(5) { json!("none") } else { json!(index) };
    let first = random.below(1000);
    let calls: Vec<_> = (first..first + MANY).map(|index| echo(caller, &json!({"number": number(index)}))).collect();
    let mut ends = Vec::new();
    match caller.link().1.skills().invoke_many(tokio_stream::iter(calls)).await {
        Err(status) => ends.push(format!("status {:?}", status.code())),
        Ok(events) => {
            let mut events = events.into_inner();
            while let Ok(Some(event)) = events.message().await {
                if let Some(Event::Result(result)) = event.event {
                    ends.push(label(&result));
                }
            }
        }
    }
    ends.resize(MANY, "no result".to_owned());
    ends
}

fn echo(caller: &Caller, input: &Value) -> InvokeRequest {
    InvokeRequest { call_id: caller.next_id(), ..openskill_tests::system::request(skills::ECHO, input.clone()) }
}

/// A model's raw call, or an ordinary one, over HTTP.
async fn over_rest(stage: &Stage, random: &mut Random) -> String {
    let headers = [("content-type", "application/json")];
    let (path, body) = match random.below(3) {
        0 => ("/skills:invoke", json!({"call": "<toolset><echo>{'number': 3,}</echo></toolset>"})),
        1 => ("/skills:invoke", json!({"call": "no call at all"})),
        _ => ("/skills/echo:invoke", json!({"input": {"number": 3}})),
    };
    let answer = rest::send(stage.address, Method::POST, path, &headers, body.to_string()).await;
    match answer.code() {
        code if code.is_empty() => "OK".to_owned(),
        code => code,
    }
}

fn label(result: &SkillResult) -> String {
    if result.success { "OK".to_owned() } else { code(result).to_owned() }
}

/// How often each end occurred.
pub(super) fn summary(ends: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for end in ends {
        *counts.entry(end).or_default() += 1;
    }
    counts.into_iter().map(|(end, count)| format!("{count} {end}")).collect::<Vec<_>>().join(", ")
}
