//! Claims deliveries that are due, and makes an attempt of each.
//!
//! Gateways look at the servers in turn, and each gives a server only a few attempts at once, so that one that does not
//! answer does not delay the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_net::egress::client::Clients;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::Trace;
use openskill_store::Store;
use openskill_store::deliveries::{DeliveryClaim, DeliveryHost, HostShare, MAX_HOSTS, Settlement};
use openskill_store::engine::StoreError;
use openskill_telemetry::trace::call::{CallSpans, Span};
use openskill_telemetry::trace::{KeyValue, SpanKind};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::super::end::read_result;
use super::super::stored_result::BlobIds;
use super::super::{OperationSnapshot, POLL, may_see};
use super::send::{Answer, SEND_TIMEOUT, send};
use super::{WebhookConfig, event, retry};
use crate::gateway::Gateway;

/// The maximum number of attempts at once, of all and of one server.
const MAX_SENDING: usize = 32;
const MAX_SENDING_TO_HOST: usize = 4;

/// When another gateway may repeat an attempt that is not settled.
const LEASE_MS: i64 = 30_000;

/// The maximum size of a result in an event, encoded. A receiver reads a larger one by the name of the operation.
const MAX_RESULT_BYTES: usize = 64 << 10;

/// Renders an operation as JSON.
pub(crate) type Render = fn(OperationSnapshot) -> String;

/// What an attempt needs.
struct Sender {
    gateway: Arc<Gateway>,
    config: WebhookConfig,
    render: Render,
    clients: Clients,
}

/// The attempts of this gateway.
struct Deliverer {
    sender: Arc<Sender>,
    sending: JoinSet<()>,
    /// The server of each attempt.
    hosts: HashMap<Id, String>,
    /// The server after which the next look begins.
    after: String,
}

/// An event, and the trace of its operation.
struct Event {
    body: String,
    /// The owner of the operation, whose names of hosts wait for each other.
    principal: String,
    trace: Trace,
}

/// Delivers events until `stop`. Then waits for the attempts under way, for at most `limit`; those that are left come
/// back when their lease ends. Returns at once if the operator wants no webhooks.
pub(crate) async fn deliver(gateway: Arc<Gateway>, render: Render, stop: CancellationToken, limit: Duration) {
    let Some(config) = gateway.long_running.config.webhooks.clone() else { return };
    let sender = Arc::new(Sender { gateway, config, render, clients: Clients::default() });
    let mut deliverer = Deliverer { sender, sending: JoinSet::new(), hosts: HashMap::new(), after: String::new() };
    let _ = stop.run_until_cancelled(deliverer.run()).await;
    let ended = async { while deliverer.sending.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limit.min(SEND_TIMEOUT), ended).await;
}

impl Deliverer {
    async fn run(&mut self) {
        let own = Arc::clone(&self.sender.gateway.long_running);
        loop {
            if let Some(store) = own.store.get() {
                match self.look(store).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, "webhooks cannot be claimed"),
                }
            }
            tokio::select! {
                Some(ended) = self.sending.join_next_with_id() => self.note_end(ended),
                () = tokio::time::sleep(POLL) => self.sender.clients.tidy(openskill_net::egress::client::IDLE),
            }
        }
    }

    fn note_end(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.hosts.remove(&id);
    }

    /// Claims deliveries of the next servers, and begins their attempts. Returns whether there is more to look at now.
    async fn look(&mut self, store: &Store) -> Result<bool, StoreError> {
        let mut room = MAX_SENDING.saturating_sub(self.sending.len());
        if room == 0 {
            return Ok(false);
        }
        let found = store.delivery_hosts(&self.after).await?;
        let mut is_all = found.len() < MAX_HOSTS;
        let mut shares = Vec::new();
        for DeliveryHost { host, is_due } in found {
            if room == 0 {
                is_all = false;
                break;
            }
            self.after.clone_from(&host);
            let busy = self.hosts.values().filter(|it| **it == host).count();
            let limit = MAX_SENDING_TO_HOST.saturating_sub(busy).min(room);
            if is_due && limit > 0 {
                room -= limit;
                shares.push(HostShare { host, limit });
            }
        }
        if is_all {
            self.after.clear();
        }
        if !shares.is_empty() {
            for claim in store.claim_deliveries(&shares, LEASE_MS).await? {
                let host = claim.webhook.host.clone();
                let begun = self.sending.spawn(Arc::clone(&self.sender).attempt(claim));
                self.hosts.insert(begun.id(), host);
            }
        }
        Ok(!is_all)
    }
}

impl Sender {
    /// Makes an attempt and settles it.
    async fn attempt(self: Arc<Self>, claim: DeliveryClaim) {
        let Some(store) = self.gateway.long_running.store.get() else { return };
        let settled = async {
            // None if its owner has removed the operation.
            let Some(event) = self.event(store, &claim).await? else { return Ok(()) };
            let answer = self.post(&claim, event).await;
            let settlement = retry::settlement(answer, &claim, store.now_ms(), rand::random());
            let outcome = match &settlement {
                Settlement::Delivered => "delivered",
                Settlement::Later { .. } => "retried",
                Settlement::Failed(_) => "failed",
            };
            self.gateway.observer.metrics.webhooks.inc(outcome);
            store.settle_delivery(&claim, &settlement).await.map(drop)
        };
        if let Err::<(), StoreError>(error) = settled.await {
            tracing::warn!(%error, operation = claim.operation_id, "an attempt of a webhook is not settled");
        }
    }

    /// Makes the event of an operation. Has the result only if that is small, and its owner may still read it.
    async fn event(&self, store: &Store, claim: &DeliveryClaim) -> Result<Option<Event>, StoreError> {
        let Some((operation, result)) = store.get_within(&claim.operation_id, MAX_RESULT_BYTES).await? else {
            return Ok(None);
        };
        let principal = self.gateway.principal(&operation.principal, &operation.credential);
        let has_result = principal.is_valid() && may_see(&principal, &operation);
        // Without its large parts, it is not the result.
        let is_whole = |it: &Vec<u8>| BlobIds::read(it).output.is_empty();
        let result = result.filter(|it| has_result && is_whole(it)).map(|it| read_result(&it));
        let ids = [&operation.trace_id, &claim.webhook.traceparent].map(|it| Some(it.as_bytes()));
        let trace = Trace::from_headers(ids[0], ids[1], None);
        let (questions, webhook) = (Vec::new(), String::new());
        let data = (self.render)(OperationSnapshot { operation: operation.clone(), result, questions, webhook });
        let public_url = self.gateway.config.public_url.as_deref().unwrap_or_default();
        Ok(event::body(&operation, public_url, data).map(|body| Event { body, principal: operation.principal, trace }))
    }

    async fn post(&self, claim: &DeliveryClaim, event: Event) -> Answer {
        let target = match self.config.target(&claim.webhook.url) {
            Ok(target) => target,
            // The operator may have changed what is allowed.
            Err(refusal) => return Answer::failed(refusal),
        };
        let begun = Instant::now();
        let spans = self.gateway.observer.tracer.as_ref().map(|it| it.enter(&event.trace, begun));
        let context = spans.as_ref().map_or(event.trace.context, |it| it.context(0));
        let headers = self.headers(&claim.operation_id, context.to_traceparent(), &event.body);
        let sending = send(&self.clients, target, headers, event.body);
        let answer = self.clients.for_skill(&event.principal, sending).await;
        if let Some(spans) = spans {
            export(&spans, begun, claim, &answer);
        }
        answer
    }

    fn headers(&self, id: &str, traceparent: String, body: &str) -> HeaderMap {
        let sent_s = i64::try_from(Timestamp::now().0 / 1_000_000).unwrap_or_default();
        let values = [
            (header::CONTENT_TYPE, event::CONTENT_TYPE.to_owned()),
            (HeaderName::from_static("webhook-id"), id.to_owned()),
            (HeaderName::from_static("webhook-timestamp"), sent_s.to_string()),
            (HeaderName::from_static("webhook-signature"), self.config.keys.sign(id, sent_s, body)),
            (HeaderName::from_static("traceparent"), traceparent),
        ];
        values.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))).collect()
    }
}

/// Exports the span of an attempt, if its trace is sampled.
fn export(spans: &CallSpans, begun: Instant, claim: &DeliveryClaim, answer: &Answer) {
    if !spans.is_sampled() {
        return spans.discard();
    }
    let mut attributes = vec![
        KeyValue::new("http.request.method", "POST"),
        KeyValue::new("server.address", claim.webhook.host.clone()),
        KeyValue::new("openskill.attempt", claim.attempt),
    ];
    attributes.extend(answer.status.map(|it| KeyValue::new("http.response.status_code", i64::from(it))));
    let failed = !answer.failure.is_empty();
    attributes.extend(failed.then(|| KeyValue::new("error.type", answer.failure.clone())));
    let span = Span::new(0, "webhook", begun);
    spans.add(Span { kind: SpanKind::Client, attributes, failed, ..span });
    spans.keep();
}
