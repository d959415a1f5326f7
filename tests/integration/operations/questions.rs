//! Skills that ask while their operations run.

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{GetOperationRequest, Operation, operation};
use openskill_proto::render::operation_metadata;
use openskill_proto::v1::{InputRequired, InvokeRequest, SkillResult};
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::system::{PATIENCE, System, data, request};
use openskill_tests::wait::until;
use prost::Message as _;
use serde_json::{Value, json};

use super::shared::{runner_first, submit};
use super::stage::{Stage, kill, wait};
use crate::input_required::{accept, interactive};

fn asks() -> InvokeRequest {
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    interactive("in_ask", json!({"message": "How old?", "schema": schema}))
}

/// Waits until the skill of an operation asks.
async fn question(gateway: &System, name: &str) -> InputRequired {
    let open = async || {
        let get = GetOperationRequest { name: name.to_owned() };
        let operation = OperationsClient::new(gateway.channel().await).get_operation(get).await.unwrap().into_inner();
        operation_metadata(&operation).unwrap().questions.pop()
    };
    until("the skill asks", PATIENCE, open).await
}

fn answered(ended: &Operation) -> Value {
    let Some(operation::Result::Response(response)) = &ended.result else { panic!("{ended:?}") };
    data(&SkillResult::decode(&*response.value).unwrap())["content"].clone()
}

#[tokio::test]
async fn any_gateway_takes_the_answer_to_an_operation() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let gateways = [stage.gateway_on(&url).await, stage.gateway_on(&url).await];
    let name = submit(&gateways[0], asks()).await;
    let [_runner, other] = runner_first(gateways).await;
    let question = question(&other, &name).await;
    let mut client = other.skills().await;
    let refused = client.answer_input(accept(&question, &json!({"age": "old"}))).await.unwrap_err();
    assert!(refused.code() == tonic::Code::InvalidArgument && refused.message().contains("/age"), "{refused}");
    client.answer_input(accept(&question, &json!({"age": 42}))).await.unwrap();
    let again = client.answer_input(accept(&question, &json!({"age": 43}))).await.unwrap_err();
    assert_eq!(again.code(), tonic::Code::NotFound);
    assert_eq!(answered(&wait(&other, name).await), json!({"age": 42}));
}

#[tokio::test]
async fn a_question_is_open_at_the_next_gateway_when_its_gateway_is_killed() {
    let stage = Stage::start().await;
    let first = stage.gateway().await;
    let name = submit(&first, asks()).await;
    let asked = question(&first, &name).await;
    kill(first).await;
    let second = stage.gateway().await;
    assert_eq!(question(&second, &name).await, asked);
    second.skills().await.answer_input(accept(&asked, &json!({"age": 42}))).await.unwrap();
    assert_eq!(answered(&wait(&second, name).await), json!({"age": 42}));
}

#[tokio::test]
async fn a_skill_can_ask_only_in_an_operation_that_is_interactive() {
    let stage = Stage::start().await;
    let gateway = stage.gateway().await;
    let name = submit(&gateway, request("in_ask", json!({"message": "?"}))).await;
    let ended = wait(&gateway, name).await;
    let Some(operation::Result::Error(error)) = &ended.result else { panic!("{ended:?}") };
    assert!(error.message.contains("can't answer"), "{}", error.message);
}
