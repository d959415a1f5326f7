//! A crash between any two entries.

use std::sync::Arc;

use openskill_proto::v1::{Decision, TurnEnd, UserDecision, chat_event::Event};

use super::scene::{Counting, Scene, Scripted, calls, done, says, until};
use crate::agent::{Agent, Input};
use crate::config::AgentConfig;
use crate::entry::{Entry, Stamped};
use crate::provider::{ModelError, Models, Reply, Request};
use crate::skills::{Owner, Skills};

fn script(step: usize, _: &Request) -> Result<Reply, ModelError> {
    match step {
        0 => calls(&[("write", r#"{"n":1}"#), ("again", r#"{"n":2}"#)]),
        1 => calls(&[("wipe", r#"{"n":3}"#), ("write", r#"{"n":4}"#)]),
        _ => says("done"),
    }
}

/// The entries of a whole turn.
async fn whole() -> Vec<Stamped> {
    let scene = Scene::new(script).await;
    let mut accepted = scene.begin().await;
    let id = accepted.conversation_id.clone();
    allow(&scene.agent, &id, &mut accepted.events).await;
    scene.agent.journal().read(&id, 0, 1000).await.unwrap()
}

async fn allow(agent: &Agent, id: &str, events: &mut crate::agent::Events) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        all.extend(until(events, |it| matches!(it, Event::Waiting(_) | Event::Done(_))).await);
        let Some(Event::Waiting(waiting)) = all.last() else { return all };
        let request_id = waiting.request_ids[0].clone();
        let decision = UserDecision { request_id, decision: Decision::Allow.into(), ..UserDecision::default() };
        let _ = agent.send(&Owner::default(), id, Input::Decision(decision)).await;
    }
}

#[tokio::test]
async fn finished_calls_never_run_again_and_a_started_one_only_if_it_is_idempotent() {
    let entries = whole().await;
    for cut in 1..entries.len() {
        let before = &entries[..cut];
        let began = |skill: &str| {
            before.iter().filter(|it| matches!(&it.entry, Entry::Calling(c) if c.skill_id == skill)).count()
        };
        let ended = |skill: &str| {
            before.iter().filter(|it| matches!(&it.entry, Entry::Called(c) if c.skill_id == skill)).count()
        };
        let skills = Arc::new(Counting::default());
        let models = Models::of(vec![Arc::new(Scripted(Box::new(script)))]);
        let shared: Arc<dyn Skills> = Arc::clone(&skills) as _;
        let agent = Agent::start(AgentConfig::default(), models, shared).await.unwrap();
        let journal = agent.journal();
        let id = journal.create("").await.unwrap();
        journal.append(&id, before.iter().map(|it| it.entry.clone()).collect()).await.unwrap();
        agent.recover().await.unwrap();
        let mut events = agent.events("", &id, 0, true).await.unwrap();
        let events = allow(&agent, &id, &mut events).await;
        assert_eq!(done(&events).end(), TurnEnd::Completed, "cut after {cut}: {events:?}");
        // Two calls of `write` and one of `wipe` in all: those that began do not run again.
        assert_eq!(skills.runs("write"), 2 - began("write"), "cut after {cut}");
        assert_eq!(skills.runs("wipe"), 1 - began("wipe"), "cut after {cut}");
        assert_eq!(skills.runs("again"), 1 - ended("again"), "cut after {cut}");
        let unknown = super::scene::results(&events).iter().filter(|it| it.unknown).count();
        assert_eq!(unknown, began("write") + began("wipe") - ended("write") - ended("wipe"), "cut after {cut}");
    }
}
