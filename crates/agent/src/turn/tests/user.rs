//! Approvals and questions.

use std::sync::atomic::Ordering;

use openskill_proto::v1::{
    ApprovalMode, Decision, TurnEnd, UserAnswer, UserAnswers, UserDecision, UserMessage, chat_event::Event,
};

use super::scene::{Scene, calls, done, results, says, until};
use crate::agent::{Accepted, Events, Input};
use crate::error::AgentError;
use crate::skills::Owner;

pub(super) async fn waits(events: &mut Events) -> (Vec<Event>, String) {
    let events = until(events, |it| matches!(it, Event::Waiting(_))).await;
    let Some(Event::Waiting(waiting)) = events.last() else { unreachable!() };
    let request_id = waiting.request_ids[0].clone();
    (events, request_id)
}

async fn decide(scene: &Scene, accepted: &Accepted, decision: UserDecision) -> Result<Accepted, AgentError> {
    scene.agent.send(&Owner::default(), &accepted.conversation_id, Input::Decision(decision)).await
}

pub(super) fn decision(request_id: &str, decision: Decision) -> UserDecision {
    UserDecision { request_id: request_id.to_owned(), decision: decision.into(), ..UserDecision::default() }
}

async fn wipes(arguments: &'static str) -> Scene {
    Scene::new(move |step, _| if step == 0 { calls(&[("wipe", arguments)]) } else { says("done") }).await
}

#[tokio::test]
async fn a_destructive_call_waits_until_it_is_allowed() {
    let scene = wipes(r#"{"a":1}"#).await;
    let mut accepted = scene.begin().await;
    let (events, request_id) = waits(&mut accepted.events).await;
    let asked = events.iter().find_map(|it| match it {
        Event::ApprovalRequired(asked) => Some(asked),
        _ => None,
    });
    assert_eq!(asked.unwrap().arguments_json, r#"{"a":1}"#);
    assert_eq!(scene.skills.runs("wipe"), 0);
    decide(&scene, &accepted, decision(&request_id, Decision::Allow)).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert!(results(&events)[0].success);
    assert_eq!(scene.skills.runs("wipe"), 1);
    let again = decide(&scene, &accepted, decision(&request_id, Decision::Allow)).await;
    assert_eq!(again.unwrap_err(), AgentError::NotWaiting);
}

#[tokio::test]
async fn a_turn_that_waits_for_long_leaves_the_memory_and_goes_on_when_it_is_decided() {
    let scene = wipes(r#"{"a":1}"#).await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    tokio::time::sleep(2 * super::super::PARK_AFTER).await;
    decide(&scene, &accepted, decision(&request_id, Decision::Allow)).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!((done(&events).end(), scene.skills.runs("wipe")), (TurnEnd::Completed, 1));
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_reads_why() {
    let scene = wipes("{}").await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    let denied = UserDecision { reason: "not today".into(), ..decision(&request_id, Decision::Deny) };
    decide(&scene, &accepted, denied).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert!(results(&events)[0].content.contains("not today"), "{events:?}");
    assert_eq!((scene.skills.runs("wipe"), done(&events).end()), (0, TurnEnd::Completed));
}

#[tokio::test]
async fn an_edited_call_runs_with_the_users_arguments() {
    let scene = wipes(r#"{"a":1}"#).await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    let edit = UserDecision { arguments_json: r#"{"a":2}"#.into(), ..decision(&request_id, Decision::Edit) };
    decide(&scene, &accepted, edit).await.unwrap();
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!(scene.skills.ran.lock().unwrap()[0].1, r#"{"a":2}"#);
}

#[tokio::test]
async fn whatever_was_decided_is_asked_again_if_the_skill_changed_meanwhile() {
    for (given, changes_soon) in [
        (Decision::Allow, false),
        (Decision::AllowConversation, false),
        (Decision::Edit, false),
        (Decision::Allow, true),
    ] {
        let scene = wipes(r#"{"a":1}"#).await;
        let mut accepted = scene.begin().await;
        let (_, request_id) = waits(&mut accepted.events).await;
        if changes_soon {
            // Between the decision and the worker.
            scene.skills.changes_soon.store(true, Ordering::Relaxed);
        } else {
            scene.skills.release.fetch_add(1, Ordering::Relaxed);
        }
        let first = UserDecision { arguments_json: r#"{"a":1}"#.into(), ..decision(&request_id, given) };
        decide(&scene, &accepted, first).await.unwrap();
        let (_, again) = waits(&mut accepted.events).await;
        assert_eq!(scene.skills.runs("wipe"), 0, "{given:?}");
        assert_ne!(again, request_id);
        decide(&scene, &accepted, decision(&again, Decision::Allow)).await.unwrap();
        let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
        assert!(results(&events).last().unwrap().success, "{events:?}");
        assert_eq!(scene.skills.runs("wipe"), 1, "{given:?}");
    }
}

#[tokio::test]
async fn each_question_of_a_call_has_an_answer_of_its_own() {
    let scene = Scene::new(|step, _| if step == 0 { calls(&[("quiz", "{}")]) } else { says("done") }).await;
    let mut accepted = scene.begin().await;
    for answer in ["true", "false"] {
        let (_, request_id) = waits(&mut accepted.events).await;
        scene
            .agent
            .send(&Owner::default(), &accepted.conversation_id, answers(&request_id, &[("sure", answer)]))
            .await
            .unwrap();
    }
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    let contents: Vec<_> = scene.skills.answers.lock().unwrap().iter().map(|it| it.content_json.clone()).collect();
    assert_eq!(contents, [r#"{"sure":true}"#, r#"{"sure":false}"#]);
}

#[tokio::test]
async fn a_grant_holds_for_the_conversation_and_not_once_it_is_tainted() {
    let scene = Scene::new(|step, request| match (step, request.messages.len()) {
        (0, _) => calls(&[("wipe", r#"{"a":1}"#)]),
        (1, _) => calls(&[("wipe", r#"{"a":2}"#)]),
        (2, _) => calls(&[("web", "{}")]),
        (3, _) => calls(&[("wipe", r#"{"a":3}"#)]),
        _ => says("done"),
    })
    .await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    decide(&scene, &accepted, decision(&request_id, Decision::AllowConversation)).await.unwrap();
    let (events, request_id) = waits(&mut accepted.events).await;
    assert_eq!(scene.skills.runs("wipe"), 2);
    assert!(events.iter().any(|it| matches!(it, Event::ApprovalRequired(asked) if asked.tainted)));
    decide(&scene, &accepted, decision(&request_id, Decision::Deny)).await.unwrap();
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!(scene.skills.runs("wipe"), 2);
}

#[tokio::test]
async fn read_only_mode_calls_nothing_that_is_not_marked() {
    let scene =
        Scene::new(|step, _| if step == 0 { calls(&[("write", "{}"), ("read", "{}")]) } else { says("done") }).await;
    let message = UserMessage { text: "do it".into(), mode: ApprovalMode::ReadOnly.into(), ..UserMessage::default() };
    let mut accepted = scene.say("", message).await;
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    let successes: Vec<_> = results(&events).iter().map(|it| it.success).collect();
    assert_eq!((successes, scene.skills.runs("write")), (vec![false, true], 0));
}

const QUESTIONS: &str = r#"{"questions":[{"id":"name","text":"Who?","type":"text","options":[],"required":true},
    {"id":"key","text":"The key?","type":"secret","options":[],"required":true}]}"#;

fn answers(request_id: &str, answers: &[(&str, &str)]) -> Input {
    let answers = answers.iter().map(|(id, answer)| UserAnswer { id: (*id).to_owned(), answer: (*answer).to_owned() });
    Input::Answers(UserAnswers { request_id: request_id.to_owned(), answers: answers.collect(), declined: false })
}

#[tokio::test]
async fn a_secret_reaches_the_skill_and_neither_the_model_nor_the_log() {
    let scene = Scene::new(|step, request| {
        let seen = format!("{:?}", request.messages);
        assert!(!seen.contains("hunter2"), "{seen}");
        match step {
            0 => calls(&[("ask_user", QUESTIONS)]),
            1 => {
                let at = seen.find("$secret").expect("a reference");
                let name: String = seen[at..]
                    .chars()
                    .skip_while(|c| *c != ':')
                    .skip(1)
                    .filter(|c| *c != '\\' && *c != '"')
                    .take_while(|c| *c != '}')
                    .collect();
                calls(&[("write", &format!(r#"{{"token":{{"$secret":"{}"}}}}"#, name.trim()))])
            }
            _ => says("it is hunter2-x"),
        }
    })
    .await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    let id = accepted.conversation_id.clone();
    scene
        .agent
        .send(&Owner::default(), &id, answers(&request_id, &[("name", "Ada"), ("key", "hunter2-x")]))
        .await
        .unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!(scene.skills.ran.lock().unwrap()[0].1, r#"{"token":"hunter2-x"}"#);
    assert!(!format!("{events:?}").contains("hunter2-x"), "{events:?}");
}

#[tokio::test]
async fn a_declined_question_is_told_to_the_model() {
    let scene = Scene::new(|step, _| if step == 0 { calls(&[("ask_user", QUESTIONS)]) } else { says("done") }).await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    let declined = UserAnswers { request_id, declined: true, ..UserAnswers::default() };
    scene.agent.send(&Owner::default(), &accepted.conversation_id, Input::Answers(declined)).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert!(results(&events)[0].content.contains("declined"));
}
