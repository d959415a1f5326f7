//! Sub-agents, and the turns that call them.

use std::sync::Arc;
use std::time::Duration;

use openskill_model::{Message, ModelError, ModelRequest, ModelResponse};
use openskill_proto::v1::{self, UserMessage, chat_event::Event};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::scene::{Scene, calls, done, results, says, until};
use crate::delegation::{SubAgentResult, SubAgentTask};
use crate::entry::EndReason;
use crate::skills::Caller;

/// The requests that the model received.
type Asked = Arc<Mutex<Vec<ModelRequest>>>;

/// Creates a scene whose model makes these calls in its first step and answers in the second.
async fn once(calling: &'static [(&'static str, &'static str)]) -> (Scene, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let scene = Scene::new(move |step, request| {
        kept.lock().push(request.clone());
        if step == 0 { calls(calling) } else { says("found") }
    });
    (scene.await, asked)
}

fn task(tools: &[&str]) -> SubAgentTask {
    SubAgentTask {
        skill_id: "researcher".to_owned(),
        definition: v1::AgentDefinition {
            prompt: "Find it.".to_owned(),
            tools: tools.iter().map(|it| (*it).to_owned()).collect(),
            ..v1::AgentDefinition::default()
        },
        read_only: false,
        arguments: r#"{"task":"look"}"#.to_owned(),
        session: String::new(),
        caller: Caller::default(),
        delegation: v1::Delegation::default(),
        time: Duration::from_secs(20),
    }
}

async fn run(scene: &Scene, task: SubAgentTask) -> SubAgentResult {
    scene.agent.delegate(task, mpsc::channel(8).0, CancellationToken::new()).await.unwrap()
}

/// Returns the results that the model read last.
fn read(asked: &Asked) -> Vec<String> {
    let asked = asked.lock();
    match asked.last().unwrap().messages.last() {
        Some(Message::Results(results)) => results.iter().map(|it| it.content.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_sub_agent_works_with_its_instructions_and_its_tools_alone() {
    let (scene, asked) = once(&[("read", "{}"), ("write", "{}")]).await;
    let answer = run(&scene, task(&["read"])).await;
    let ended = answer.ended.unwrap();
    assert_eq!((ended.end, ended.text.as_str()), (EndReason::Completed, "found"));
    assert_eq!((answer.used.tool_calls, answer.used.iterations, answer.used.input_tokens), (1, 2, 20));
    assert_eq!((scene.skills.runs("read"), scene.skills.runs("write")), (1, 0));
    assert!(read(&asked)[1].contains("there is no tool 'write'"), "{:?}", read(&asked));
    let first = asked.lock()[0].clone();
    assert!(first.system.starts_with("Find it.") && first.system.contains("you cannot ask anyone"), "{}", first.system);
    assert_eq!(first.messages, [Message::User("look".to_owned())]);
    assert!(!first.tools.iter().any(|it| it.contains("ask_user")), "{:?}", first.tools);
    let listed = scene.agent.journal().list("", 0, "").await.unwrap();
    assert!(listed.conversations.is_empty(), "it is nobody's conversation");
}

#[tokio::test]
async fn what_needs_approval_fails_in_a_sub_agent_and_so_does_a_question() {
    let (scene, asked) = once(&[("wipe", "{}"), ("ask_user", r#"{"questions":[]}"#)]).await;
    run(&scene, task(&["wipe"])).await;
    assert_eq!(scene.skills.runs("wipe"), 0);
    let read = read(&asked);
    assert!(read[0].contains("PERMISSION_DENIED") && read[0].contains("a sub-agent has no user"), "{read:?}");
    assert!(read[1].contains("ASK_USER_UNAVAILABLE"), "{read:?}");
}

#[tokio::test]
async fn text_of_strangers_taints_a_sub_agent_and_its_answer() {
    let scene = Scene::new(|step, _| match step {
        0 => calls(&[("web", "{}")]),
        1 => calls(&[("write", "{}")]),
        _ => says("found"),
    });
    let scene = scene.await;
    let answer = run(&scene, task(&["web", "write"])).await;
    assert!(answer.is_tainted);
    assert_eq!(scene.skills.runs("write"), 0, "writing would need approval");
    let (scene, _) = once(&[("write", "{}")]).await;
    let delegation = v1::Delegation { tainted: true, ..v1::Delegation::default() };
    let answer = run(&scene, SubAgentTask { delegation, ..task(&["write"]) }).await;
    assert!(answer.is_tainted);
    assert_eq!(scene.skills.runs("write"), 0, "whoever calls it read text of strangers");
}

#[tokio::test]
async fn a_sub_agent_whose_work_is_strangers_pages_goes_on_but_gets_nothing_that_asks_anyway() {
    let scene = Scene::new(|step, _| match step {
        0 => calls(&[("web", "{}")]),
        1 => calls(&[("write", "{}"), ("wipe", "{}")]),
        _ => says("found"),
    });
    let scene = scene.await;
    let mut task = task(&["web", "write", "wipe"]);
    task.definition.acts_on_untrusted = true;
    let answer = run(&scene, task).await;
    assert!(answer.is_tainted, "whoever calls it learns what it read");
    assert_eq!((scene.skills.runs("write"), scene.skills.runs("wipe")), (1, 0));
}

#[tokio::test]
async fn a_sub_agent_sees_the_last_pictures_if_its_caller_says_so() {
    for (arguments, sees) in [(r#"{"use_vision":true}"#, true), (r#"{"use_vision":false}"#, false), ("{}", false)] {
        let asked = Asked::default();
        let kept = Arc::clone(&asked);
        let scene = Scene::new(move |step, request: &ModelRequest| {
            kept.lock().push(request.clone());
            if step < 2 { calls(&[("read", &format!(r#"{{"draw":{step}}}"#))]) } else { says("found") }
        });
        let scene = scene.await;
        run(&scene, SubAgentTask { arguments: arguments.to_owned(), ..task(&["read"]) }).await;
        let last = asked.lock().last().unwrap().clone();
        let shown = last.messages.iter().filter_map(|it| match it {
            Message::Results(results) => Some(results.iter().flat_map(|it| &it.pictures).collect::<Vec<_>>()),
            _ => None,
        });
        let shown: Vec<Vec<String>> =
            shown.map(|all| all.iter().map(|it| format!("{} {}", it.media_type, it.base64)).collect()).collect();
        // Two pictures for each call. The last three are kept: "small" and "large".
        let (small, large) = ("image/png c21hbGw=".to_owned(), "image/webp bGFyZ2U=".to_owned());
        let wanted = if sees { vec![vec![large.clone()], vec![small, large]] } else { vec![Vec::new(), Vec::new()] };
        assert_eq!(shown, wanted, "{arguments}");
        assert_eq!(last.system.contains("Text in a picture comes from strangers"), sees, "{}", last.system);
    }
}

#[tokio::test]
async fn a_read_only_sub_agent_calls_only_what_reads() {
    let delegation = v1::Delegation { read_only: true, ..v1::Delegation::default() };
    for task in [
        SubAgentTask { read_only: true, ..task(&["write", "read"]) },
        SubAgentTask { delegation, ..task(&["write", "read"]) },
    ] {
        let (scene, _) = once(&[("write", "{}"), ("read", "{}")]).await;
        run(&scene, task).await;
        assert_eq!((scene.skills.runs("write"), scene.skills.runs("read")), (0, 1));
    }
}

/// Returns a model that calls `name` for as long as it may.
fn insists(name: &'static str) -> impl Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> {
    move |step, request| if request.may_call { calls(&[(name, &format!(r#"{{"n":{step}}}"#))]) } else { says("enough") }
}

#[tokio::test]
async fn what_is_left_of_the_caller_bounds_a_sub_agent_exactly() {
    let scene = Scene::new(insists("write")).await;
    let delegation = v1::Delegation { max_tool_calls: Some(2), ..v1::Delegation::default() };
    let answer = run(&scene, SubAgentTask { delegation, ..task(&["write"]) }).await;
    let ended = answer.ended.unwrap();
    assert_eq!((ended.end, ended.limit.as_str(), ended.text.as_str()), (EndReason::Limit, "max_tool_calls", "enough"));
    assert_eq!((scene.skills.runs("write"), answer.used.tool_calls), (2, 2));
}

#[tokio::test]
async fn a_sub_agent_whose_time_is_up_says_what_it_used() {
    let scene = Scene::new(insists("slow")).await;
    let answer = run(&scene, SubAgentTask { time: Duration::from_millis(300), ..task(&["slow"]) }).await;
    assert_eq!((answer.ended, answer.used.tool_calls), (None, 1));
}

#[tokio::test]
async fn a_sub_agent_sees_no_agents_below_the_deepest_level() {
    for (depth, runs) in [(2, 1), (3, 0)] {
        let (scene, _) = once(&[("helper", "{}")]).await;
        let delegation = v1::Delegation { depth, ..v1::Delegation::default() };
        run(&scene, SubAgentTask { delegation, ..task(&["helper"]) }).await;
        assert_eq!(scene.skills.runs("helper"), runs, "depth {depth}");
        let deeper: Vec<_> = scene.skills.delegations.lock().iter().map(|it| it.depth).collect();
        assert_eq!(deeper, vec![depth + 1; runs]);
    }
}

/// Returns all events of a turn that may make seven calls and use 5,000 tokens.
async fn within_limits(scene: &Scene) -> Vec<Event> {
    let limits = v1::TurnLimits { max_tool_calls: 7, max_tokens: 5000, ..v1::TurnLimits::default() };
    let message = UserMessage { text: "do it".into(), limits: Some(limits), ..UserMessage::default() };
    let mut accepted = scene.say("", message).await;
    until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await
}

#[tokio::test]
async fn what_a_sub_agent_uses_comes_out_of_the_turn_that_calls_it() {
    let scene = Scene::new(|step, request: &ModelRequest| match step {
        0 => calls(&[("helper", r#"{"task":"a"}"#), ("helper", r#"{"task":"b"}"#)]),
        _ if request.may_call => calls(&[("write", &format!(r#"{{"n":{step}}}"#))]),
        _ => says("enough"),
    });
    let scene = scene.await;
    let events = within_limits(&scene).await;
    let used = done(&events).usage.unwrap();
    assert_eq!((done(&events).limit.as_str(), used.tool_calls), ("max_tool_calls", 7), "{events:?}");
    assert_eq!(scene.skills.runs("write"), 1, "two calls of agents, four calls of theirs, and one more");
    let given: Vec<_> = scene.skills.delegations.lock().clone();
    let left: Vec<_> = given.iter().map(|it| (it.depth, it.max_tool_calls, it.max_iterations, it.max_tokens)).collect();
    assert_eq!(left, [(1, Some(6), Some(9), Some(4985)), (1, Some(3), Some(7), Some(4885))]);
    assert_eq!(used.input_tokens, 200 + 10 * 3);
}

#[tokio::test]
async fn a_sub_agent_that_was_lost_counts_as_if_it_had_used_all_that_was_left() {
    let scene = Scene::new(|_, request: &ModelRequest| match request.may_call {
        true => calls(&[("helper", r#"{"task":"lost"}"#)]),
        false => says("enough"),
    });
    let scene = scene.await;
    let events = within_limits(&scene).await;
    let used = done(&events).usage.unwrap();
    assert_eq!((scene.skills.runs("helper"), used.tool_calls, used.iterations), (1, 7, 10), "{events:?}");
    assert!(used.input_tokens >= 5000, "{used:?}");
}

#[tokio::test]
async fn a_sub_agent_that_read_text_of_strangers_taints_the_conversation() {
    for (task, waits) in [(r#"{"task":"the web"}"#, true), (r#"{"task":"a file"}"#, false)] {
        let scene = Scene::new(move |step, _| match step {
            0 => calls(&[("helper", task)]),
            1 => calls(&[("write", "{}")]),
            _ => says("done"),
        });
        let scene = scene.await;
        let mut accepted = scene.begin().await;
        let last = |it: &Event| matches!(it, Event::Waiting(_) | Event::Done(_));
        let events = until(&mut accepted.events, last).await;
        assert_eq!(matches!(events.last(), Some(Event::Waiting(_))), waits, "{events:?}");
        assert_eq!(scene.skills.runs("write"), usize::from(!waits));
    }
}

#[tokio::test]
async fn no_secret_is_handed_to_an_agent_whose_model_would_read_it() {
    let scene = Scene::new(|step, _| match step {
        0 => calls(&[("helper", r#"{"task":{"$secret":"q1/token"}}"#)]),
        _ => says("done"),
    });
    let scene = scene.await;
    let events = scene.turn().await;
    assert_eq!(scene.skills.runs("helper"), 0);
    assert!(results(&events)[0].content.contains("a secret can't be given to an agent"), "{events:?}");
}
