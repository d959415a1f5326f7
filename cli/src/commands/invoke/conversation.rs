//! A call that may ask its user: events come in, answers go out, on one stream.

use std::io::IsTerminal as _;

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InputRequired, InputResponse, InvokeRequest, SkillResult};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::Request;
use tonic::transport::Channel;

use super::progress;
use super::questions::answer;
use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;

/// Questions that may wait for the user. A skill that asks more gets no answer, and its call ends at its deadline.
const MAX_QUESTIONS: usize = 16;

/// A question, and the call that it belongs to.
struct Question {
    call_id: String,
    required: InputRequired,
}

/// Makes the call and answers its questions until it ends.
pub(super) async fn call(
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
    request: Request<InvokeRequest>,
) -> Result<SkillResult, Failure> {
    let refused = client::refused(settings);
    let (metadata, extensions, call) = request.into_parts();
    let (answers, messages) = mpsc::channel(MAX_QUESTIONS);
    let (questions, asked) = mpsc::channel(MAX_QUESTIONS);
    // Ends with the call, even in the middle of a question.
    let _asking = AbortOnDropHandle::new(tokio::spawn(ask(asked, answers)));
    let call = InvokeRequest { interactive: true, ..call };
    let messages = tokio_stream::once(call).chain(ReceiverStream::new(messages));
    let request = Request::from_parts(metadata, extensions, messages);
    let mut events = client.invoke_many(request).await.map_err(&refused)?.into_inner();
    let mut shows_progress = std::io::stderr().is_terminal();
    while let Some(event) = events.message().await.map_err(&refused)? {
        if shows_progress {
            progress::show(&event);
        }
        match event.event {
            Some(Event::InputRequired(required)) => {
                // Progress would overwrite the prompt.
                shows_progress = false;
                let _ = questions.try_send(Question { call_id: event.call_id, required });
            }
            Some(Event::Result(result)) => return Ok(result),
            _ => {}
        }
    }
    Err(Failure::Gateway { url: settings.base_url.clone(), reason: "closed the stream without a result".to_owned() })
}

/// Asks the user one question after the other, and sends the answers.
async fn ask(mut questions: mpsc::Receiver<Question>, answers: mpsc::Sender<InvokeRequest>) {
    while let Some(Question { call_id, required }) = questions.recv().await {
        let (action, content_json) = answer(&required).await;
        let response = InputResponse { request_id: required.request_id, action: action.into(), content_json };
        let message = InvokeRequest { call_id, input_response: Some(response), ..InvokeRequest::default() };
        if answers.send(message).await.is_err() {
            return;
        }
    }
}
