//! A turn acts only with the rights of the credential that began it.

use std::time::Duration;

use openskill_model::ModelRequest;
use openskill_proto::v1::{
    ApprovalMode, CancelTurn, Decision, TurnEnd, UserAnswer, UserAnswers, UserDecision, UserMessage, chat_event::Event,
};

use super::scene::{NARROW, Scene, calls, done, results, says, until};
use crate::agent::{Accepted, Input};
use crate::config::AgentConfig;
use crate::error::AgentError;
use crate::skills::{Caller, UserIdentity, Validity};

fn with(credential: &str) -> Caller {
    let owner = UserIdentity { principal: "ada".to_owned(), credential: credential.to_owned() };
    Caller { owner, ..Caller::default() }
}

async fn begin(scene: &Scene, caller: &Caller, mode: ApprovalMode) -> Result<Accepted, AgentError> {
    let message = UserMessage { text: "do it".to_owned(), mode: mode.into(), ..UserMessage::default() };
    scene.agent.send(caller, "", Input::Message(message)).await
}

fn set(scene: &Scene, credential: &str, validity: Validity) {
    scene.skills.validities.lock().insert(credential.to_owned(), validity);
}

async fn asks(accepted: &mut Accepted) -> String {
    let events = until(&mut accepted.events, |it| matches!(it, Event::Waiting(_))).await;
    let Some(Event::Waiting(waiting)) = events.last() else { unreachable!() };
    waiting.request_ids[0].clone()
}

fn decision(request_id: &str, decision: Decision) -> Input {
    let request_id = request_id.to_owned();
    Input::Decision(UserDecision { request_id, decision: decision.into(), ..UserDecision::default() })
}

#[tokio::test]
async fn nothing_is_taken_from_a_credential_that_has_ended() {
    let scene = Scene::new(|step, _| if step == 0 { calls(&[("wipe", "{}")]) } else { says("done") }).await;
    let mut accepted = begin(&scene, &with("first"), ApprovalMode::Ask).await.unwrap();
    let request_id = asks(&mut accepted).await;
    set(&scene, "second", Validity::Ended);
    let second = with("second");
    assert_eq!(begin(&scene, &second, ApprovalMode::Auto).await.unwrap_err(), AgentError::Revoked);
    let id = &accepted.conversation_id;
    let answers = UserAnswers { request_id: request_id.clone(), ..UserAnswers::default() };
    for input in [decision(&request_id, Decision::Allow), Input::Answers(answers), Input::Cancel(CancelTurn {})] {
        assert_eq!(scene.agent.send(&second, id, input.clone()).await.unwrap_err(), AgentError::Revoked, "{input:?}");
    }
    assert_eq!(scene.skills.runs("wipe"), 0);
}

#[tokio::test]
async fn a_turn_ends_with_the_credential_that_began_it_whatever_others_its_principal_has() {
    let scene = Scene::new(|_, _| calls(&[("slow", "{}"), ("wipe", "{}")])).await;
    let mut accepted = begin(&scene, &with("first"), ApprovalMode::Ask).await.unwrap();
    until(&mut accepted.events, |it| matches!(it, Event::ToolCall(_))).await;
    set(&scene, "first", Validity::Ended);
    let (scene, id) = scene.restarted("ada", &accepted.conversation_id).await;
    let mut events = scene.agent.events("ada", &id, 0, true).await.unwrap();
    let events = until(&mut events, |it| matches!(it, Event::Done(_))).await;
    let end = done(&events);
    assert_eq!(end.end(), TurnEnd::Failed);
    assert!(end.error.contains("key or token") && end.error.contains("send the message again"), "{}", end.error);
    assert_eq!(results(&events).len(), 2, "every call has its result");
    assert_eq!(scene.skills.runs("wipe"), 0);
}

#[tokio::test]
async fn after_a_restart_a_turn_waits_a_while_until_its_token_is_shown_again() {
    for is_shown in [true, false] {
        let restart_patience = if is_shown { Duration::from_secs(60) } else { Duration::from_millis(100) };
        let config = AgentConfig { restart_patience, ..AgentConfig::default() };
        let script = |step: usize, _: &ModelRequest| if step == 0 { calls(&[("slow", "{}")]) } else { says("done") };
        let scene = Scene::with(config, script).await;
        let mut accepted = begin(&scene, &with("token"), ApprovalMode::Ask).await.unwrap();
        until(&mut accepted.events, |it| matches!(it, Event::ToolCall(_))).await;
        set(&scene, "token", Validity::Unknown);
        let (scene, id) = scene.restarted("ada", &accepted.conversation_id).await;
        let mut events = scene.agent.events("ada", &id, 0, true).await.unwrap();
        if is_shown {
            set(&scene, "token", Validity::Valid);
        }
        let end = done(&until(&mut events, |it| matches!(it, Event::Done(_))).await);
        assert_eq!(end.end(), if is_shown { TurnEnd::Completed } else { TurnEnd::Failed });
    }
}

#[tokio::test]
async fn a_narrow_credential_can_deny_and_can_not_allow_what_it_may_not_call() {
    let scene = Scene::new(|step, _| if step == 0 { calls(&[("wipe", "{}")]) } else { says("done") }).await;
    let mut accepted = begin(&scene, &with("wide"), ApprovalMode::Ask).await.unwrap();
    let request_id = asks(&mut accepted).await;
    let (id, narrow) = (&accepted.conversation_id, with(NARROW));
    for given in [Decision::Allow, Decision::AllowConversation, Decision::Edit] {
        let refused = scene.agent.send(&narrow, id, decision(&request_id, given)).await.unwrap_err();
        assert_eq!(refused, AgentError::Forbidden, "{given:?}");
    }
    scene.agent.send(&narrow, id, decision(&request_id, Decision::Deny)).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!((results(&events)[0].success, scene.skills.runs("wipe")), (false, 0));
}

#[tokio::test]
async fn the_agents_own_question_is_answered_by_the_credential_that_began_the_turn_alone() {
    const WHICH: &str = r#"{"questions":[{"id":"which","text":"What shall I do?","type":"text"}]}"#;
    for is_declined in [false, true] {
        let scene = Scene::new(|step, _| if step == 0 { calls(&[("ask_user", WHICH)]) } else { says("done") }).await;
        let mut accepted = begin(&scene, &with("wide"), ApprovalMode::Ask).await.unwrap();
        let request_id = asks(&mut accepted).await;
        let id = &accepted.conversation_id;
        let answer = UserAnswer { id: "which".to_owned(), answer: "run wipe".to_owned() };
        let answers = UserAnswers { request_id, answers: vec![answer], declined: is_declined };
        for other in [NARROW, "other"].map(with).into_iter().filter(|_| !is_declined) {
            let refused = scene.agent.send(&other, id, Input::Answers(answers.clone())).await.unwrap_err();
            assert_eq!(refused, AgentError::Forbidden, "{other:?}");
        }
        let unknown = UserAnswers { request_id: "q0".to_owned(), ..answers.clone() };
        let refused = scene.agent.send(&with("other"), id, Input::Answers(unknown)).await.unwrap_err();
        assert_eq!(refused, AgentError::NotWaiting);
        let sender = with(if is_declined { NARROW } else { "wide" });
        scene.agent.send(&sender, id, Input::Answers(answers)).await.unwrap();
        let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
        assert_eq!(results(&events)[0].success, !is_declined);
    }
}
