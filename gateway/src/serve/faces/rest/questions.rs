//! `POST /questions/{request_id}:answer`: answers a question of a running call or operation.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use openskill_proto::json;
use openskill_proto::v1::{ErrorCode, InputResponse, SkillError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use crate::gateway::Shard;
use crate::long_running::answers;
use crate::serve::faces::user_action::UserAction;
use crate::serve::layers::request_context;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct AnswerBody<'a> {
    action: UserAction,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

pub(crate) async fn answer(
    State(shard): State<Shard>,
    target: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let context = request_context(request.extensions());
    let trace_id = context.trace.id.clone();
    let target = target.as_ref().map_or("", |Path(target)| target.as_str());
    let Some(request_id) = target.strip_suffix(":answer") else {
        return body::refuse(ErrorCode::NotFound, "POST to /questions/{request_id}:answer", &request);
    };
    let response = match body::read(request, &trace_id).await {
        Ok(bytes) => parse(request_id, &bytes),
        Err(refusal) => return *refusal,
    };
    let answered = match response {
        Ok(response) => answers::answer(&shard, &context.principal, response).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(()) => body::json("{}".to_owned()),
        Err(error) => body::error(&error, &trace_id),
    }
}

fn parse(request_id: &str, bytes: &[u8]) -> Result<InputResponse, SkillError> {
    let body: AnswerBody<'_> = json::read(bytes).map_err(|error| {
        let message = format!(
            "the answer can't be read: {error}; send {{\"action\": \"accept\", \"content\": {{...}}}}, \
             or \"decline\" or \"cancel\" without content"
        );
        SkillError::new(ErrorCode::InvalidArgument, message)
    })?;
    Ok(InputResponse {
        request_id: request_id.to_owned(),
        action: body.action as i32,
        content_json: body.content.map(|it| it.get().to_owned()).unwrap_or_default(),
    })
}
