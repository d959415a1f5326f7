//! Renders events as a single JSON document, JSON lines, or server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{Stream, StreamExt as _};
use openskill_proto::render;
use openskill_proto::v1::{ChatEvent, SkillError, chat_event};
use serde::Serialize;
use serde_json::value::RawValue;

use super::body;

/// The maximum total size of the events in a JSON document, in bytes.
const MAX_WHOLE_BYTES: usize = 8 * 1024 * 1024;

/// The interval between keepalives on a stream without events.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client should wait before it reconnects to resume after the last event.
const RETRY: Duration = Duration::from_secs(1);

/// Renders server-sent events. The id of a stored event is its number, so that a client can resume after it.
pub(super) fn sse(
    events: impl Stream<Item = Result<ChatEvent, SkillError>> + Send + 'static,
    trace_id: String,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut is_told = false;
    let events = events.map(move |event| {
        Ok(match event {
            Ok(event) => {
                let (name, data) = render::chat_event(&event);
                let sent = Event::default().event(name).data(data);
                let sent = if event.number > 0 { sent.id(event.number.to_string()) } else { sent };
                if std::mem::replace(&mut is_told, true) { sent } else { sent.retry(RETRY) }
            }
            Err(error) => {
                let data = render::refusal(&error, &trace_id);
                Event::default().event("error").data(data)
            }
        })
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Renders one line of JSON per event.
pub(super) fn lines(
    events: impl Stream<Item = Result<ChatEvent, SkillError>> + Send + 'static,
    trace_id: String,
) -> Response {
    let lines = events.map(move |event| {
        Ok::<_, Infallible>(match event {
            Ok(event) => render::chat_event_line(&event),
            Err(error) => {
                format!("{{\"event\":\"error\",\"data\":{}}}\n", render::refusal(&error, &trace_id))
            }
        })
    });
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    ([kind], Body::from_stream(lines)).into_response()
}

#[derive(Serialize)]
struct Whole {
    conversation_id: String,
    /// The stored events of the exchange, except `done`.
    events: Vec<Line>,
    /// The number of events omitted because the document is full. The conversation still contains them.
    left_out: usize,
    done: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Line {
    event: &'static str,
    data: Box<RawValue>,
}

/// Collects the whole exchange in one document, and returns it once the exchange is done.
pub(super) async fn whole(
    conversation_id: String,
    events: impl Stream<Item = Result<ChatEvent, SkillError>> + Send,
    trace_id: &str,
) -> Response {
    let mut whole = Whole { conversation_id, events: Vec::new(), left_out: 0, done: None };
    let mut held = 0;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => return body::error(&error, trace_id),
        };
        let is_done = matches!(event.event, Some(chat_event::Event::Done(_)));
        if event.number == 0 && !is_done {
            continue;
        }
        let (name, data) = render::chat_event(&event);
        held += data.len();
        let Ok(data) = RawValue::from_string(data) else { continue };
        match (is_done, held > MAX_WHOLE_BYTES) {
            (true, _) => whole.done = Some(data),
            (false, false) => whole.events.push(Line { event: name, data }),
            (false, true) => whole.left_out += 1,
        }
    }
    // Serializing strings and JSON text can't fail.
    body::json(serde_json::to_string(&whole).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::stream;
    use openskill_proto::v1::chat_event::Event as Chat;
    use openskill_proto::v1::{ErrorCode, ModelReply, TextPiece, TurnDone};
    use serde_json::Value;

    use super::*;

    fn event(number: u64, event: Chat) -> Result<ChatEvent, SkillError> {
        Ok(ChatEvent { number, conversation_id: "c".to_owned(), event: Some(event), ..ChatEvent::default() })
    }

    async fn text(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_first_event_says_how_soon_to_come_back() {
        let events = [event(1, Chat::Reply(ModelReply::default())), event(2, Chat::Done(TurnDone::default()))];
        let text = text(sse(stream::iter(events), "t".to_owned()).into_response()).await;
        let (first, second) = text.split_once("\n\n").unwrap();
        assert!(first.contains("retry: 1000") && !second.contains("retry"), "{text}");
    }

    #[tokio::test]
    async fn a_document_has_what_is_kept_and_the_end() {
        let events = [
            event(1, Chat::Reply(ModelReply::default())),
            event(0, Chat::Text(TextPiece::default())),
            event(0, Chat::Done(TurnDone::default())),
        ];
        let answer = whole("c".to_owned(), stream::iter(events), "t").await;
        let answer: Value = serde_json::from_str(&text(answer).await).unwrap();
        assert_eq!(answer["events"].as_array().unwrap().len(), 1);
        assert_eq!((&answer["events"][0]["event"], &answer["left_out"]), (&"reply".into(), &0.into()));
        assert_eq!(answer["done"]["end"], "unspecified");
    }

    #[tokio::test]
    async fn a_large_turn_is_cut_but_for_its_end() {
        let large = || event(1, Chat::Reply(ModelReply { text: "x".repeat(3 * 1024 * 1024), ..ModelReply::default() }));
        let events = [large(), large(), large(), event(2, Chat::Done(TurnDone::default()))];
        let answer: Value =
            serde_json::from_str(&text(whole("c".to_owned(), stream::iter(events), "t").await).await).unwrap();
        assert_eq!((answer["events"].as_array().unwrap().len(), &answer["left_out"]), (2, &1.into()));
        assert!(answer["done"].is_object());
    }

    #[tokio::test]
    async fn only_kept_events_have_an_id_to_go_on_from() {
        let events = [event(7, Chat::Reply(ModelReply::default())), event(0, Chat::Text(TextPiece::default()))];
        let sent = text(sse(stream::iter(events), String::new()).into_response()).await;
        assert!(sent.contains("event: reply\n") && sent.contains("id: 7\n"), "{sent}");
        assert_eq!(sent.matches("id: ").count(), 1, "{sent}");
    }

    #[tokio::test]
    async fn a_stream_that_breaks_says_why() {
        let broken = || stream::iter([Err(SkillError::new(ErrorCode::NotFound, "gone"))]);
        let sent = text(sse(broken(), "t".to_owned()).into_response()).await;
        assert!(sent.starts_with("event: error\n") && sent.contains("NOT_FOUND"), "{sent}");
        let line: Value = serde_json::from_str(&text(lines(broken(), "t".to_owned())).await).unwrap();
        assert_eq!(line["data"]["error"]["code"], "NOT_FOUND");
    }
}
