//! A whole call: a request at the gateway's face, all layers included, to the last byte of its answer.
//!
//! The connections' own work is counted on the worker's side and not on the client's. There is no subscriber for logs and
//! traces.

use axum::body::Body;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{InvokeEvent, InvokeRequest, SkillResult, invoke_event::Event};
use prost::Message;

use super::cases::aside;
use super::in_memory::{self, SKILL};
use super::sample::VALID;
use crate::face::Face;
use crate::health::Health;
use crate::layers::origin::Listener;

/// `Invoke`: the worker answers at once.
pub(super) fn invoke() -> Box<dyn FnMut()> {
    calls("Invoke", |answer| {
        let [result] = &messages::<SkillResult>(answer)[..] else { panic!("one message was expected") };
        result.success
    })
}

/// `InvokeStream`: accepted, one event, the result.
pub(super) fn invoke_stream() -> Box<dyn FnMut()> {
    calls("InvokeStream", |answer| {
        let events = messages::<InvokeEvent>(answer);
        let last = events.last().and_then(|it| it.event.clone());
        events.len() == 3 && matches!(last, Some(Event::Result(result)) if result.success)
    })
}

fn calls(method: &str, is_right: fn(Bytes) -> bool) -> Box<dyn FnMut()> {
    // One thread, and nothing of the system but its clock.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let face = runtime.block_on(async {
        let gateway = in_memory::gateway();
        in_memory::join(&gateway).await;
        Face::new(&gateway, 0, &Health::new().await, Listener { loopback: true }).unwrap()
    });
    let uri = format!("http://127.0.0.1:8000/openskill.v1.SkillService/{method}");
    Box::new(move || {
        let request = aside(|| request(&uri));
        let answer = runtime.block_on(answer(&face, request));
        assert!(aside(|| is_right(answer)));
    })
}

async fn answer(face: &Face, request: http::Request<Body>) -> Bytes {
    face.answer(request).await.into_body().collect().await.unwrap().to_bytes()
}

fn request(uri: &str) -> http::Request<Body> {
    let request = InvokeRequest {
        skill_id: SKILL.to_owned(),
        arguments: Some(Arguments::InputJson(VALID.to_owned())),
        session_id: "session-1".to_owned(),
        ..InvokeRequest::default()
    };
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(request.encoded_len() as u32);
    request.encode(&mut body).unwrap();
    let head = http::Request::post(uri).version(http::Version::HTTP_2).header("content-type", "application/grpc");
    head.header("te", "trailers").header("grpc-timeout", "10S").body(Body::from(body.freeze())).unwrap()
}

/// The messages of a gRPC body.
fn messages<M: Message + Default>(mut body: Bytes) -> Vec<M> {
    let mut messages = Vec::new();
    while body.has_remaining() {
        let _compressed = body.get_u8();
        let length = body.get_u32() as usize;
        messages.push(M::decode(body.split_to(length)).unwrap());
    }
    messages
}
