//! Restarts after a crash between any two entries.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use openskill_model::{ModelCall, ModelError, ModelRequest, ModelResponse, Models};
use openskill_proto::v1::{Decision, TurnEnd, UserAnswer, UserAnswers, UserDecision, chat_event::Event};

use super::scene::{Counting, SURE, Scene, Scripted, calls, done, says, until};
use super::user::{decision, waits};
use crate::agent::{Agent, Input};
use crate::config::AgentConfig;
use crate::context::elicitation::from_schema;
use crate::entry::{Answered, Calling, Entry, QuestionAnswer, QuestionsAsked, SkillRevision, Stamped};
use crate::skills::{Caller, SkillGateway};

fn script(step: usize, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
    match step {
        0 => calls(&[("write", r#"{"n":1}"#), ("again", r#"{"n":2}"#)]),
        1 => calls(&[("wipe", r#"{"n":3}"#), ("write", r#"{"n":4}"#)]),
        _ => says("done"),
    }
}

/// Returns the entries of a complete turn.
async fn whole() -> Vec<Stamped> {
    let scene = Scene::new(script).await;
    let mut accepted = scene.begin().await;
    let id = accepted.conversation_id.clone();
    allow(&scene.agent, &id, &mut accepted.events).await;
    scene.agent.journal().read(&id, 0, 1000).await.unwrap()
}

/// An agent that resumes a conversation after a crash.
struct Restarted {
    agent: Agent,
    skills: Arc<Counting>,
    id: String,
}

/// Starts an agent with these entries in its log. Its skills have changed `release` times.
async fn restart(
    before: &[Stamped],
    script: fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError>,
    release: u64,
) -> Restarted {
    let skills = Arc::new(Counting::default());
    skills.release.store(release, Ordering::Relaxed);
    let models = Models::from_models(vec![Arc::new(Scripted(Box::new(script)))]);
    let shared: Arc<dyn SkillGateway> = Arc::clone(&skills) as _;
    let agent = Agent::start(AgentConfig::default(), None, models, shared).await.unwrap();
    let journal = agent.journal();
    let id = journal.create("").await.unwrap();
    journal.append(&id, before.iter().map(|it| it.entry.clone()).collect()).await.unwrap();
    agent.recover().await.unwrap();
    Restarted { agent, skills, id }
}

fn purge(step: usize, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
    if step == 0 { calls(&[("purge", r#"{"path":"/important"}"#)]) } else { says("done") }
}

fn quiz(step: usize, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
    if step == 0 { calls(&[("quiz", "{}")]) } else { says("done") }
}

const EDITED: &str = r#"{"path":"/tmp/scratch"}"#;

/// Returns the entries of a turn whose call was edited by the user, up to the entry for which `last` returns true.
async fn edited(last: fn(&Entry) -> bool) -> Vec<Stamped> {
    let scene = Scene::new(purge).await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    let edit = UserDecision { arguments_json: EDITED.into(), ..decision(&request_id, Decision::Edit) };
    scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Decision(edit)).await.unwrap();
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    let mut entries = scene.agent.journal().read(&accepted.conversation_id, 0, 1000).await.unwrap();
    entries.truncate(1 + entries.iter().position(|it| last(&it.entry)).unwrap());
    entries
}

fn decided(entry: &Entry) -> bool {
    matches!(entry, Entry::ApprovalDecided(_))
}

fn begun(entry: &Entry) -> bool {
    matches!(entry, Entry::Calling(_))
}

#[tokio::test]
async fn what_the_user_edited_and_approved_runs_after_a_restart_and_nothing_else() {
    for last in [decided, begun] {
        let Restarted { agent, skills, id } = restart(&edited(last).await, purge, 0).await;
        let mut events = agent.events("", &id, 0, true).await.unwrap();
        until(&mut events, |it| matches!(it, Event::Done(_))).await;
        assert_eq!(*skills.ran.lock(), [("purge".to_owned(), EDITED.to_owned())]);
    }
}

#[tokio::test]
async fn an_approved_call_asks_again_if_the_skill_changed_while_the_agent_was_down() {
    for last in [decided, begun] {
        let before = edited(last).await;
        let Restarted { agent, skills, id } = restart(&before, purge, 1).await;
        let mut events = agent.events("", &id, before.len() as u64, true).await.unwrap();
        let (seen, request_id) = waits(&mut events).await;
        let asked = seen.iter().find_map(|it| match it {
            Event::ApprovalRequired(asked) => Some(asked.arguments_json.as_str()),
            _ => None,
        });
        assert_eq!((asked, skills.runs("purge")), (Some(EDITED), 0), "with what the user wrote");
        agent.send(&Caller::default(), &id, Input::Decision(decision(&request_id, Decision::Allow))).await.unwrap();
        until(&mut events, |it| matches!(it, Event::Done(_))).await;
        assert_eq!(*skills.ran.lock(), [("purge".to_owned(), EDITED.to_owned())]);
    }
}

#[tokio::test]
async fn an_answer_of_before_a_restart_counts_for_its_own_question_alone() {
    let asked = |file: &str| {
        Entry::Asked(QuestionsAsked {
            request_id: format!("q-{file}"),
            call_id: "call_2_0".to_owned(),
            message: format!("Delete {file}?"),
            questions: from_schema(SURE),
        })
    };
    let yes = QuestionAnswer { id: "sure".to_owned(), answer: "true".to_owned() };
    let answered = Answered { request_id: "q-a.txt".to_owned(), answers: vec![yes], declined: false };
    let calling = Calling {
        call_id: "call_2_0".to_owned(),
        skill: SkillRevision { skill_id: "quiz".into(), version: "1.0.0".into(), definition_hash: "0".into() },
        arguments: "{}".to_owned(),
        is_idempotent: true,
        ..Calling::default()
    };
    let mut entries = edited(|it| matches!(it, Entry::Replied(_))).await;
    if let Entry::Replied(replied) = &mut entries[1].entry {
        replied.calls[0] =
            ModelCall { id: "call_2_0".into(), name: "quiz".into(), arguments: "{}".into(), ..ModelCall::default() };
    }
    for entry in [Entry::Calling(calling), asked("a.txt"), Entry::Answered(answered)] {
        entries.push(Stamped { number: 0, time_us: 0, entry, bytes: 0 });
    }
    let Restarted { agent, skills, id } = restart(&entries, quiz, 0).await;
    let mut events = agent.events("", &id, 5, true).await.unwrap();
    let (seen, request_id) = waits(&mut events).await;
    assert!(matches!(&seen[0], Event::InputRequired(it) if it.message == "Delete b.txt?"), "{seen:?}");
    let no = UserAnswer { id: "sure".to_owned(), answer: "false".to_owned() };
    let no = UserAnswers { request_id, answers: vec![no], declined: false };
    agent.send(&Caller::default(), &id, Input::Answers(no)).await.unwrap();
    until(&mut events, |it| matches!(it, Event::Done(_))).await;
    let contents: Vec<_> = skills.answers.lock().iter().map(|it| it.content_json.clone()).collect();
    assert_eq!(contents, [r#"{"sure":true}"#, r#"{"sure":false}"#]);
}

async fn allow(agent: &Agent, id: &str, events: &mut crate::agent::Events) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        all.extend(until(events, |it| matches!(it, Event::Waiting(_) | Event::Done(_))).await);
        let Some(Event::Waiting(waiting)) = all.last() else { return all };
        let request_id = waiting.request_ids[0].clone();
        let decision = UserDecision { request_id, decision: Decision::Allow.into(), ..UserDecision::default() };
        let _ = agent.send(&Caller::default(), id, Input::Decision(decision)).await;
    }
}

#[tokio::test]
async fn finished_calls_never_run_again_and_a_started_one_only_if_it_is_idempotent() {
    let entries = whole().await;
    for cut in 1..entries.len() {
        let before = &entries[..cut];
        let began = |skill: &str| {
            before.iter().filter(|it| matches!(&it.entry, Entry::Calling(c) if c.skill.skill_id == skill)).count()
        };
        let ended = |skill: &str| {
            before.iter().filter(|it| matches!(&it.entry, Entry::Called(c) if c.skill_id == skill)).count()
        };
        let Restarted { agent, skills, id } = restart(before, script, 0).await;
        let mut events = agent.events("", &id, 0, true).await.unwrap();
        let events = allow(&agent, &id, &mut events).await;
        assert_eq!(done(&events).end(), TurnEnd::Completed, "cut after {cut}: {events:?}");
        // Two calls of `write` and one of `wipe` in total: those that had begun don't run again.
        assert_eq!(skills.runs("write"), 2 - began("write"), "cut after {cut}");
        assert_eq!(skills.runs("wipe"), 1 - began("wipe"), "cut after {cut}");
        assert_eq!(skills.runs("again"), 1 - ended("again"), "cut after {cut}");
        let unknown = super::scene::results(&events).iter().filter(|it| it.unknown).count();
        assert_eq!(unknown, began("write") + began("wipe") - ended("write") - ended("wipe"), "cut after {cut}");
    }
}
