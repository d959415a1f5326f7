//! Approvals and questions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use openskill_identity::shares::Pool;
use openskill_model::Models;
use openskill_proto::v1::{
    ApprovalMode, CancelTurn, Decision, TurnEnd, UserAnswer, UserAnswers, UserDecision, UserMessage, chat_event::Event,
};
use tokio_util::sync::CancellationToken;

use super::scene::{Counting, Scene, calls, done, results, says, until};
use crate::agent::{Accepted, Events, Input};
use crate::config::AgentConfig;
use crate::entry::{ApprovalAsked, Entry, QuestionKind, QuestionsAsked, Started, UserQuestion};
use crate::error::{AgentError, Bound};
use crate::journal::Journal;
use crate::skills::{Caller, SkillGateway};
use crate::turn::{AgentResources, State, Turn, TurnOrigin};

pub(super) async fn waits(events: &mut Events) -> (Vec<Event>, String) {
    let events = until(events, |it| matches!(it, Event::Waiting(_))).await;
    let Some(Event::Waiting(waiting)) = events.last() else { unreachable!() };
    let request_id = waiting.request_ids[0].clone();
    (events, request_id)
}

async fn decide(scene: &Scene, accepted: &Accepted, decision: UserDecision) -> Result<Accepted, AgentError> {
    scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Decision(decision)).await
}

pub(super) fn decision(request_id: &str, decision: Decision) -> UserDecision {
    UserDecision { request_id: request_id.to_owned(), decision: decision.into(), ..UserDecision::default() }
}

/// Creates a turn with these entries that is not running, without any share of memory.
async fn turn_of(entries: Vec<Entry>) -> Turn {
    let config = AgentConfig::default();
    let journal = Journal::open_at(config.store.clone()).await.unwrap();
    let id = journal.create("").await.unwrap();
    let state = State::from_entries(journal.append(&id, entries).await.unwrap());
    let skills: Arc<dyn SkillGateway> = Arc::new(Counting::default());
    let shared = AgentResources { config, journal, models: Models::none(), skills, shutdown: CancellationToken::new() };
    let memory = Pool::new(0).share("");
    let origin = TurnOrigin { principal: String::new(), parent: None };
    Turn::new(Arc::new(shared), id, origin, Arc::default(), state, memory, false)
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
    scene.until_parked().await;
    decide(&scene, &accepted, decision(&request_id, Decision::Allow)).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!((done(&events).end(), scene.skills.runs("wipe")), (TurnEnd::Completed, 1));
}

#[tokio::test]
async fn an_input_that_is_written_is_not_refused_for_want_of_memory() {
    let asked = ApprovalAsked { request_id: "a1".to_owned(), ..ApprovalAsked::default() };
    let turn = turn_of(vec![Entry::Started(Started::default()), Entry::ApprovalAsked(asked)]).await;
    turn.decide(decision("a1", Decision::Allow)).await.unwrap();
    assert!(turn.state.lock().decision("a1").is_some());
    assert!(turn.memory.lock().amount() > 0, "it counts");
    let more = turn.write(vec![Entry::Waiting { request_ids: Vec::new() }]).await;
    assert_eq!(more, Err(AgentError::Full(Bound::Memory)));
}

#[tokio::test]
async fn while_a_turn_waits_each_decision_and_answer_counts_once() {
    let approval = ApprovalAsked { request_id: "a1".to_owned(), ..ApprovalAsked::default() };
    let question = QuestionsAsked { request_id: "q1".to_owned(), ..QuestionsAsked::default() };
    let open = vec![Entry::Started(Started::default()), Entry::ApprovalAsked(approval), Entry::Asked(question)];
    let turn = turn_of(open).await;
    turn.decide(decision("a1", Decision::Deny)).await.unwrap();
    assert_eq!(turn.decide(decision("a1", Decision::Allow)).await, Err(AgentError::NotWaiting));
    let answers = |declined| UserAnswers { request_id: "q1".to_owned(), declined, ..UserAnswers::default() };
    turn.answer(answers(true)).await.unwrap();
    assert_eq!(turn.answer(answers(false)).await, Err(AgentError::NotWaiting));
}

#[tokio::test]
async fn cancelled_turns_for_which_there_is_no_room_come_back_one_at_a_time() {
    let config = AgentConfig { max_turns: 1, ..AgentConfig::default() };
    let scene = Scene::with(config, |_, request| {
        let is_slow = format!("{:?}", request.messages).contains("slowly");
        calls(&[(if is_slow { "slow" } else { "wipe" }, "{}")])
    });
    let scene = scene.await;
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let mut accepted = scene.begin().await;
        waits(&mut accepted.events).await;
        scene.until_parked().await;
        waiting.push(accepted.conversation_id);
    }
    let running = UserMessage { text: "slowly".to_owned(), ..UserMessage::default() };
    let _running = scene.say("", running).await;
    let cancelled = waiting.into_iter().map(|id| {
        let agent = scene.agent.clone();
        tokio::spawn(async move { agent.send(&Caller::default(), &id, Input::Cancel(CancelTurn {})).await.map(drop) })
    });
    let cancelled: Vec<_> = cancelled.collect();
    let mut most = 0;
    while !cancelled.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(scene.agent.turns_in_memory());
        tokio::task::yield_now().await;
    }
    for cancelled in cancelled {
        assert_eq!(cancelled.await.unwrap(), Ok(()));
    }
    assert_eq!(most, 2, "the one that runs, and one that ends");
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
    assert_eq!(scene.skills.ran.lock()[0].1, r#"{"a":2}"#);
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
            // The skill changes between the decision and the call.
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
            .send(&Caller::default(), &accepted.conversation_id, answers(&request_id, &[("sure", answer)]))
            .await
            .unwrap();
    }
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    let contents: Vec<_> = scene.skills.answers.lock().iter().map(|it| it.content_json.clone()).collect();
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
        .send(&Caller::default(), &id, answers(&request_id, &[("name", "Ada"), ("key", "hunter2-x")]))
        .await
        .unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!(scene.skills.ran.lock()[0].1, r#"{"token":"hunter2-x"}"#);
    assert!(!format!("{events:?}").contains("hunter2-x"), "{events:?}");
}

#[tokio::test]
async fn a_declined_question_is_told_to_the_model() {
    let scene = Scene::new(|step, _| if step == 0 { calls(&[("ask_user", QUESTIONS)]) } else { says("done") }).await;
    let mut accepted = scene.begin().await;
    let (_, request_id) = waits(&mut accepted.events).await;
    let declined = UserAnswers { request_id, declined: true, ..UserAnswers::default() };
    scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Answers(declined)).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert!(results(&events)[0].content.contains("declined"));
}

#[tokio::test]
async fn a_slash_in_a_skills_question_is_no_name_of_a_secret_unless_the_agent_asks_for_that_again() {
    let asked = |request_id: &str, id: &str| {
        let question = UserQuestion { id: id.to_owned(), kind: QuestionKind::Secret, ..UserQuestion::default() };
        Entry::Asked(QuestionsAsked {
            request_id: request_id.to_owned(),
            questions: vec![question],
            ..QuestionsAsked::default()
        })
    };
    let mut entries = vec![Entry::Started(Started::default())];
    entries.extend([asked("q1", "db/password"), asked("q2", "db/password"), asked("q3", "q1/db/password")]);
    let turn = turn_of(entries).await;
    let names = ["q1/db/password", "q2/db/password"];
    for (request_id, id, secret, kept) in [
        ("q1", "db/password", "first one", [Some("first one"), None]),
        ("q2", "db/password", "other one", [Some("first one"), Some("other one")]),
        ("q3", "q1/db/password", "again", [Some("again"), Some("other one")]),
    ] {
        let Input::Answers(given) = answers(request_id, &[(id, secret)]) else { unreachable!() };
        turn.answer(given).await.unwrap();
        assert_eq!(names.map(|name| turn.secrets.get(name)), kept.map(|it| it.map(str::to_owned)));
    }
}
