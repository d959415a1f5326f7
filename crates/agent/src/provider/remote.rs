//! A model behind a wire format and a connection.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::Dialect;

use super::http::Server;
use super::model::{Model, ModelError, Reply, Request};
use super::text_calls::Held;
use super::wire::Wire;
use crate::message::Message;

/// A model of a configured provider.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) name: String,
    pub(super) wire: Box<dyn Wire>,
    pub(super) server: Server,
}

impl Model for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn dialect(&self) -> Dialect {
        self.wire.dialect()
    }

    fn server(&self) -> Option<(String, u16)> {
        let url = &self.server.url;
        Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
    }

    fn ask<'a>(
        &'a self,
        request: &'a Request,
        text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        async move {
            if !(request.text_calls && request.may_call) {
                return self.exchange(request, text).await;
            }
            let mut held = Held::default();
            let reply = self.exchange(request, &mut |piece| held.take(piece, text)).await?;
            Ok(held.end(reply, &request.tools, text))
        }
        .boxed()
    }
}

impl Remote {
    /// One exchange, and one more for each of two things that a provider may refuse: what it gave with earlier calls, once the
    /// messages before them were shortened or the key has changed, and pictures, if its model reads none.
    async fn exchange(&self, request: &Request, text: &mut (dyn FnMut(&str) + Send)) -> Result<Reply, ModelError> {
        let (mut kept, mut without_pictures) = (true, None);
        loop {
            let asked = without_pictures.as_ref().unwrap_or(request);
            let answer = self.server.ask(self.wire.body(asked, kept), self.wire.fold(), text).await;
            let Err(ModelError::Refused { status, reason, .. }) = &answer else { return answer };
            if kept && matches!(status, 400 | 404) && gave(asked) && names_it(reason) {
                kept = false;
                tracing::info!(
                    model = self.name,
                    "the provider refused what it gave with earlier calls: asking without it"
                );
            } else if has_pictures(asked) && refuses_pictures(*status, reason) {
                without_pictures = Some(without(request.clone()));
                tracing::info!(model = self.name, "the provider takes no pictures: asking without them");
            } else {
                return answer;
            }
        }
    }
}

fn has_pictures(request: &Request) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Results(results) => results.iter().any(|it| !it.pictures.is_empty()),
        _ => false,
    })
}

/// The request with words in place of its pictures.
fn without(mut request: Request) -> Request {
    let results = request.messages.iter_mut().filter_map(|it| match it {
        Message::Results(results) => Some(results),
        _ => None,
    });
    for result in results.flatten() {
        if !std::mem::take(&mut result.pictures).is_empty() {
            result.content.push_str("\n[Its pictures can't be shown to you.]");
        }
    }
    request
}

/// Whether a refusal is about pictures. llama.cpp answers 500 then.
fn refuses_pictures(status: u16, reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    let is_named =
        ["image", "vision", "multimodal", "multi-modal", "content type"].iter().any(|it| reason.contains(it));
    matches!(status, 400 | 404 | 413 | 415 | 422 | 500) && is_named
}

fn gave(request: &Request) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Assistant { calls, .. } => calls.iter().any(|call| !call.opaque.is_empty()),
        _ => false,
    })
}

/// Whether a refusal is about what the provider gave.
fn names_it(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["thinking", "signature", "reasoning", "encrypted", "extra_content"].iter().any(|word| reason.contains(word))
}
