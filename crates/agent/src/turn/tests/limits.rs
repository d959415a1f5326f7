//! The limits at which a turn stops making calls.

use openskill_model::{ModelError, ModelRequest, ModelResponse};
use openskill_proto::v1::{TurnEnd, TurnLimits, UserMessage, chat_event::Event};

use super::scene::{Scene, calls, done, results, says, until};
use crate::config::{AgentConfig, Price};

/// Returns a model that makes calls until it is no longer allowed to.
fn insists(
    call: impl Fn(usize) -> (String, String) + Send + Sync,
) -> impl Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> {
    move |step, request| {
        let (name, arguments) = call(step);
        if request.may_call { calls(&[(&name, &arguments)]) } else { says("enough") }
    }
}

fn counted(step: usize) -> (String, String) {
    ("write".to_owned(), format!(r#"{{"n":{step}}}"#))
}

async fn ends(scene: &Scene, limits: TurnLimits) -> (String, Vec<Event>) {
    let message = UserMessage { text: "do it".into(), limits: Some(limits), ..UserMessage::default() };
    let mut accepted = scene.say("", message).await;
    let events = until(&mut accepted.events, |it| matches!(it, Event::Done(_))).await;
    assert_eq!((done(&events).end(), done(&events).text.as_str()), (TurnEnd::Limit, "enough"), "{events:?}");
    (done(&events).limit, events)
}

#[tokio::test]
async fn calls_are_bounded_exactly_also_in_parallel() {
    let scene = Scene::new(|_, request: &ModelRequest| match request.may_call {
        true => calls(&[("write", r#"{"n":1}"#), ("write", r#"{"n":2}"#), ("read", r#"{"n":3}"#)]),
        false => says("enough"),
    })
    .await;
    let (limit, events) = ends(&scene, TurnLimits { max_tool_calls: 2, ..TurnLimits::default() }).await;
    assert_eq!(limit, "max_tool_calls");
    assert_eq!(scene.skills.ran.lock().len(), 2);
    assert_eq!(results(&events).len(), 3);
}

#[tokio::test]
async fn the_bound_of_calls_holds_in_the_last_iteration_too() {
    let scene = Scene::new(|_, request: &ModelRequest| match request.may_call {
        true => calls(&[("write", r#"{"n":1}"#), ("write", r#"{"n":2}"#), ("write", r#"{"n":3}"#)]),
        false => says("enough"),
    })
    .await;
    let (limit, _) = ends(&scene, TurnLimits { max_tool_calls: 2, max_iterations: 1, ..TurnLimits::default() }).await;
    assert_eq!((limit.as_str(), scene.skills.runs("write")), ("max_tool_calls", 2));
    let (limit, _) = ends(&scene, TurnLimits { max_iterations: 1, ..TurnLimits::default() }).await;
    assert_eq!((limit.as_str(), scene.skills.runs("write")), ("max_iterations", 5));
}

#[tokio::test]
async fn iterations_tokens_and_cost_are_bounded() {
    let scene = Scene::new(insists(counted)).await;
    let (limit, events) = ends(&scene, TurnLimits { max_iterations: 2, ..TurnLimits::default() }).await;
    assert_eq!((limit.as_str(), done(&events).usage.unwrap().iterations), ("max_iterations", 2));
    let (limit, _) = ends(&scene, TurnLimits { max_tokens: 30, ..TurnLimits::default() }).await;
    assert_eq!(limit, "max_tokens");
    let price = Price { model: "test:scripted".into(), input_micros: 1_000_000, output_micros: 2_000_000 };
    let scene = Scene::with(AgentConfig { prices: vec![price], ..AgentConfig::default() }, insists(counted)).await;
    let (limit, events) = ends(&scene, TurnLimits { max_cost_micros: 40, ..TurnLimits::default() }).await;
    assert_eq!(limit, "max_cost_micros");
    // Two requests with a cost of 20 each reach the limit, and the last request costs another 20.
    assert_eq!(done(&events).usage.unwrap().cost_micros, 60);
}

#[tokio::test]
async fn an_identical_call_gets_its_first_result_and_a_third_ends_the_calls() {
    let scene = Scene::new(insists(|_| ("write".to_owned(), r#"{ "n" : 1 }"#.to_owned()))).await;
    let (limit, events) = ends(&scene, TurnLimits::default()).await;
    assert_eq!((limit.as_str(), scene.skills.runs("write")), ("repeated_call", 1));
    let replayed: Vec<_> = results(&events).iter().map(|it| it.replayed).collect();
    assert_eq!(replayed, [false, true, true]);
}

#[tokio::test]
async fn a_repeatable_skill_runs_each_time() {
    let scene = Scene::new(insists(|_| ("again".to_owned(), "{}".to_owned()))).await;
    let (limit, _) = ends(&scene, TurnLimits::default()).await;
    assert_eq!((limit.as_str(), scene.skills.runs("again")), ("max_tool_calls", 5));
}

#[tokio::test]
async fn three_equal_errors_end_the_calls() {
    let scene = Scene::new(insists(|step| ("fail".to_owned(), format!(r#"{{"n":{step}}}"#)))).await;
    let (limit, _) = ends(&scene, TurnLimits::default()).await;
    assert_eq!((limit.as_str(), scene.skills.runs("fail")), ("repeated_error", 3));
}

#[tokio::test]
async fn refused_arguments_go_back_only_so_often() {
    let scene =
        Scene::new(insists(|step| (if step % 2 == 0 { "strict" } else { "none" }.to_owned(), "{}".to_owned()))).await;
    let (limit, events) = ends(&scene, TurnLimits::default()).await;
    assert_eq!((limit.as_str(), results(&events).len()), ("max_validation_retries", 4));
}
