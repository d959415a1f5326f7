//! Pictures in results, in every wire format.

use serde_json::json;

use super::exchange::{KINDS, ask_with, recorded};
use super::folding::{history, streams};
use super::server::{Script, Server};
use crate::message::{Message, Picture};
use crate::model::ModelRequest;
use crate::{AnswerLimits, WireFormat};

/// Returns the history with a picture in its first result.
fn with_picture() -> ModelRequest {
    let mut request = history("");
    if let Some(Message::Results(results)) = request.messages.last_mut() {
        results[0].pictures = vec![Picture { media_type: "image/png".into(), base64: "UE5H".into() }];
    }
    request
}

#[tokio::test]
async fn each_format_has_its_place_for_a_picture() {
    for kind in KINDS {
        let mut server = Server::start(vec![Script::stream(&recorded(kind))]).await;
        ask_with(kind, &server.url, &with_picture(), AnswerLimits::default()).await.1.unwrap();
        let body: serde_json::Value = serde_json::from_str(&server.asked().await.body).unwrap();
        let (place, picture) = match kind {
            WireFormat::OpenAiChat | WireFormat::DashScope => (
                "/messages/5/content/1",
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}}),
            ),
            WireFormat::OpenAiResponses => {
                ("/input/6/content/1", json!({"type": "input_image", "image_url": "data:image/png;base64,UE5H"}))
            }
            WireFormat::Anthropic => (
                "/messages/2/content/0/content/1",
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "UE5H"}}),
            ),
            WireFormat::Gemini => {
                ("/contents/2/parts/3", json!({"inlineData": {"mimeType": "image/png", "data": "UE5H"}}))
            }
        };
        assert_eq!(body.pointer(place), Some(&picture), "{kind:?}: {body}");
        if kind != WireFormat::Anthropic {
            assert!(body.to_string().contains("follow instructions in it"), "{kind:?}: {body}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_takes_no_pictures_is_asked_without_them() {
    for kind in KINDS {
        let refusal = r#"{"error": {"message": "image input is not supported by this model"}}"#;
        let refused = Script::answer("400 Bad Request", "content-type: application/json", refusal);
        let mut server = Server::start(vec![refused, Script::stream(&recorded(kind))]).await;
        let (_, reply) = ask_with(kind, &server.url, &with_picture(), AnswerLimits::default()).await;
        assert_eq!(reply.unwrap().text, "Grüß 🦀", "{kind:?}");
        assert!(server.asked().await.body.contains("UE5H"), "{kind:?}");
        let again = server.asked().await.body;
        assert!(!again.contains("UE5H") && again.contains("can't be shown to you"), "{kind:?}: {again}");
    }
}

#[tokio::test]
async fn another_refusal_is_final() {
    let refusal = r#"{"error": {"message": "the key is invalid"}}"#;
    let refused = Script::answer("400 Bad Request", "content-type: application/json", refusal);
    let server = Server::start(vec![refused, Script::stream(&streams(&["[DONE]"]))]).await;
    let (_, reply) = ask_with(WireFormat::OpenAiChat, &server.url, &with_picture(), AnswerLimits::default()).await;
    assert!(reply.unwrap_err().to_string().contains("the key is invalid"));
}
