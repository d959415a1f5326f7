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
    /// One exchange; or two, if the provider refuses what it gave with earlier calls, as it may once the messages before
    /// them were shortened or the key has changed.
    async fn exchange(&self, request: &Request, text: &mut (dyn FnMut(&str) + Send)) -> Result<Reply, ModelError> {
        let answer = self.server.ask(self.wire.body(request, true), self.wire.fold(), text).await;
        match &answer {
            Err(ModelError::Refused { status: 400 | 404, reason, .. }) if gave(request) && names_it(reason) => {
                tracing::info!(
                    model = self.name,
                    "the provider refused what it gave with earlier calls: asking without it"
                );
                self.server.ask(self.wire.body(request, false), self.wire.fold(), text).await
            }
            _ => answer,
        }
    }
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
