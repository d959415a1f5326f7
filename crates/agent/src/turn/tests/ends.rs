//! The course and the end of turns.

use openskill_proto::v1::{CancelTurn, TurnEnd, UserMessage, chat_event::Event};

use super::scene::{Scene, calls, done, results, says, until};
use crate::agent::{Accepted, Input};
use crate::config::AgentConfig;
use crate::error::AgentError;
use crate::skills::{Caller, UserIdentity};

fn owner(principal: &str) -> Caller {
    let owner = UserIdentity { principal: principal.to_owned(), ..UserIdentity::default() };
    Caller { owner, ..Caller::default() }
}

#[tokio::test]
async fn a_message_is_answered() {
    let scene = Scene::new(|_, _| says("hello")).await;
    let events = scene.turn().await;
    assert!(matches!(events[0], Event::Started(_)), "{events:?}");
    assert_eq!((done(&events).end(), done(&events).text.as_str()), (TurnEnd::Completed, "hello"));
    let usage = done(&events).usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.iterations), (10, 5, 1));
}

#[tokio::test]
async fn calls_run_and_their_results_reach_the_model() {
    let scene = Scene::new(|step, _| match step {
        0 => calls(&[("read", r#"{"a":1}"#), ("write", r#"{"b":12345678901234567890123}"#)]),
        1 => calls(&[("write", r#"{"c":3}"#)]),
        _ => says("done"),
    })
    .await;
    let events = scene.turn().await;
    assert_eq!(results(&events).len(), 3);
    assert!(results(&events).iter().all(|it| it.success));
    assert_eq!(scene.skills.ran.lock()[1], ("write".into(), r#"{"b":12345678901234567890123}"#.into()));
    assert_eq!(done(&events).text, "done");
    assert_eq!(done(&events).usage.unwrap().tool_calls, 3);
}

#[tokio::test]
async fn an_unknown_tool_and_refused_arguments_go_back_to_the_model() {
    let scene = Scene::new(|step, _| match step {
        0 => calls(&[("nothing", "{}"), ("strict", r#"{"ok":1}"#)]),
        1 => calls(&[("strict", r#"{"ok":true}"#)]),
        _ => says("done"),
    })
    .await;
    let events = scene.turn().await;
    let successes: Vec<_> = results(&events).iter().map(|it| it.success).collect();
    assert_eq!(successes, [false, false, true]);
    assert_eq!(scene.skills.runs("strict"), 1);
}

#[tokio::test]
async fn a_cancelled_turn_gives_each_call_one_result_and_starts_nothing() {
    let scene = Scene::new(|_, _| calls(&[("slow", "{}"), ("wipe", "{}"), ("write", "{}")])).await;
    let mut accepted = scene.begin().await;
    until(&mut accepted.events, |it| matches!(it, Event::ToolCall(_))).await;
    while scene.skills.runs("slow") == 0 {
        tokio::task::yield_now().await;
    }
    scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Cancel(CancelTurn {})).await.unwrap();
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!(done(&events).end(), TurnEnd::Cancelled);
    let unknown: Vec<_> = results(&events).iter().map(|it| it.unknown).collect();
    assert_eq!(unknown, [true, false, false]);
    assert_eq!(scene.skills.all().into_iter().collect::<Vec<_>>(), [("slow".to_owned(), 1)]);
}

#[tokio::test]
async fn a_second_message_waits_for_the_first_ones_end() {
    let scene = Scene::new(|_, _| calls(&[("slow", "{}")])).await;
    let accepted = scene.begin().await;
    let message = openskill_proto::v1::UserMessage { text: "again".into(), ..Default::default() };
    let refused = scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Message(message)).await;
    assert_eq!(refused.unwrap_err(), AgentError::Busy);
}

#[tokio::test]
async fn a_conversation_of_another_principal_does_not_exist() {
    let scene = Scene::new(|_, _| says("hello")).await;
    let accepted = scene.begin().await;
    let id = &accepted.conversation_id;
    let eve = owner("eve");
    assert_eq!(scene.agent.send(&eve, id, Input::Cancel(CancelTurn {})).await.unwrap_err(), AgentError::NoConversation);
    assert_eq!(scene.agent.journal().get("eve", id).await.unwrap_err(), AgentError::NoConversation);
    assert!(scene.agent.events("eve", id, 0, false).await.is_err());
}

#[tokio::test]
async fn every_cancellation_is_answered_however_near_the_end_of_its_turn_it_comes() {
    let scene = Scene::new(|_, _| says("hello")).await;
    for steps in 0..60 {
        let accepted = scene.begin().await;
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        match scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Cancel(CancelTurn {})).await {
            Ok(mut cancelled) => drop(until(&mut cancelled.events, |it| matches!(it, Event::Done(_))).await),
            Err(error) => assert_eq!(error, AgentError::NotWaiting),
        }
    }
    let mut accepted = scene.begin().await;
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    let late = scene.agent.send(&Caller::default(), &accepted.conversation_id, Input::Cancel(CancelTurn {})).await;
    assert_eq!(late.unwrap_err(), AgentError::NotWaiting);
}

#[tokio::test]
async fn a_turn_that_fills_its_conversation_fails_and_the_log_says_so() {
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(6 << 20));
    let scene = Scene::new(move |_, _| calls(&[("write", &large)])).await;
    let mut accepted = scene.begin().await;
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    let mut kept = scene.agent.events("", &accepted.conversation_id, 0, false).await.unwrap();
    let events = until(&mut kept, |it| matches!(it, Event::Done(_))).await;
    assert_eq!(done(&events).end(), TurnEnd::Failed);
    assert!(done(&events).error.contains("begin a new one"), "{}", done(&events).error);
    assert_eq!(results(&events).iter().map(|it| it.unknown).collect::<Vec<_>>(), [true], "it ran");
    scene.agent.delete("", &accepted.conversation_id).await.unwrap();
}

#[tokio::test]
async fn a_principal_leaves_turns_to_others_and_gets_its_places_back() {
    let config = AgentConfig { max_turns: 10, ..AgentConfig::default() };
    let scene = Scene::with(config, |_, _| calls(&[("slow", "{}")])).await;
    let send = async |principal: &str| {
        let message = UserMessage { text: "do it".into(), ..UserMessage::default() };
        scene.agent.send(&owner(principal), "", Input::Message(message)).await
    };
    let mut running: Vec<Accepted> = Vec::new();
    let refused = loop {
        match send("greedy").await {
            Ok(accepted) => running.push(accepted),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AgentError::TooManyTurns(10));
    assert!((6..10).contains(&running.len()), "{}", running.len());
    send("modest").await.unwrap();
    for accepted in &mut running {
        scene.agent.send(&owner("greedy"), &accepted.conversation_id, Input::Cancel(CancelTurn {})).await.unwrap();
    }
    send("greedy").await.unwrap();
}
