//! `http`: sends a request to an HTTP backend, as the manifest describes.
//!
//! ```text
//! arguments -> request (templates) -> egress (may it go there?) -> client -> transport -> redirect? -> response -> normalize
//! ```
//!
//! A request belongs to its call's future, so dropping this closes the connection. The runner does not retry. The
//! gateway retries idempotent skills.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_net::egress::cause::cause;
use openskill_net::egress::client::{Clients, IDLE};
use openskill_net::egress::reach::Reach;
use openskill_net::egress::transport::SendError;
use openskill_proto::metadata::{PRINCIPAL, SESSION_ID, TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::v1::{ErrorCode, SkillError, skill_error::More};
use openskill_sandbox::untrusted_json::{LIGHT_BYTES, off_shard};
use openskill_telemetry::trace::KeyValue;
use openskill_telemetry::trace::call::ClientSpan;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};

use crate::config::Variables;
use crate::manifest::http::Http as Settings;
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};

mod messages;
mod raw_json;
mod redirect;
mod request;
mod response;
pub(crate) mod secrets;
mod status;

use request::Request;
use response::ResponseReader;
use secrets::Secrets;

pub(crate) struct Http {
    clients: Clients,
    variables: Variables,
}

/// The response to the last request, after redirects.
struct FinalResponse {
    response: reqwest::Response,
    was_redirected: bool,
    /// The request's span, which ends when the response was read.
    span: Option<ClientSpan>,
}

impl Http {
    pub(crate) fn new(variables: Variables) -> Self {
        Self { clients: Clients::default(), variables }
    }

    async fn call(&self, invocation: &Invocation) -> RawOutput {
        let RunnerSpec::Http(settings) = &invocation.manifest.how else { return unavailable() };
        let Ok(secrets) = Secrets::read(settings, &self.variables) else { return unavailable() };
        let answered = match request::fill(settings, &invocation.input, &secrets) {
            Ok(request) => {
                let sent = self.send(request, settings, invocation);
                self.clients.for_skill(&invocation.manifest.id, sent).await
            }
            Err(error) => Err(RawOutput::NotStarted(error)),
        };
        let raw = match answered {
            Ok(FinalResponse { response, was_redirected, span }) => {
                let status = response.status().as_u16();
                let reader = ResponseReader { http: settings, secrets: &secrets, events: &invocation.events };
                let mut raw = reader.read(response).await;
                // A response may be incomplete or not match the manifest, despite its status.
                let failure = if let RawOutput::Failed(error) = &raw { Some(error.code()) } else { None };
                end_span(span, Some(status), failure);
                if let RawOutput::Answer { refused, .. } = &mut raw {
                    *refused &= !was_redirected;
                }
                raw
            }
            Err(unanswered) => unanswered,
        };
        off_shard(raw.bytes() > LIGHT_BYTES, move || response::enforce_limit(without(&secrets, raw))).await
    }

    /// Sends the request and follows redirects.
    ///
    /// # Errors
    /// If there is no response, returns the run's output.
    async fn send(
        &self,
        mut request: Request,
        settings: &Settings,
        invocation: &Invocation,
    ) -> Result<FinalResponse, RawOutput> {
        let mut context = context_headers(invocation);
        let mut left = settings.redirects;
        loop {
            // A server that redirects may already have acted on the request.
            let unsent = if left == settings.redirects { RawOutput::NotStarted } else { RawOutput::Failed };
            let reach = Reach::for_url(&request.url, &settings.allow)
                .map_err(|refused| unsent(status::error_from_refusal(&refused)))?;
            let client = self.clients.get(reach).await.map_err(|error| {
                tracing::error!(error, "an HTTP client cannot be created");
                unsent(SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker"))
            })?;
            let mut span = begin_span(invocation, &request, settings.redirects - left);
            // This makes the server's spans children of this one.
            let parent = span.as_ref().map(|span| span.context().to_traceparent());
            if let Some(traceparent) = parent.and_then(|it| HeaderValue::from_str(&it).ok()) {
                context.insert(TRACEPARENT, traceparent);
            }
            let response = client.execute(build_request(&request, &context)).await.map_err(|error| {
                let skill_error = status::error_from_send(&error);
                log_unanswered(invocation, &error, &skill_error);
                end_span(span.take(), None, Some(skill_error.code()));
                let failed = if error.was_unsent() { unsent } else { RawOutput::Failed };
                failed(skill_error)
            })?;
            let code = response.status().as_u16();
            let Some(location) = response.headers().get(LOCATION).filter(|_| redirect::is_redirect(code)) else {
                return Ok(FinalResponse { response, was_redirected: left < settings.redirects, span });
            };
            let last = (left == 0).then_some(ErrorCode::ExecutionError);
            end_span(span, Some(code), last);
            if left == 0 {
                let message = format!(
                    "the server redirected the request more than {} times, which is as often as the manifest allows \
                     (http.redirects)",
                    settings.redirects
                );
                return Err(RawOutput::Failed(SkillError::new(ErrorCode::ExecutionError, message)));
            }
            left -= 1;
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            request = redirect::follow(request, code, &location).map_err(RawOutput::Failed)?;
            if settings.target.origin.origin() != request.url.origin() {
                // Only the manifest's server may see the principal, not one to which it redirects.
                context.remove(PRINCIPAL);
                context.remove(SESSION_ID);
            }
        }
    }
}

impl Runner for Http {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let RunnerSpec::Http(settings) = &manifest.how else {
            return Err("its manifest does not name a server".to_owned());
        };
        Secrets::read(settings, &self.variables)?;
        Reach::for_url(&settings.target.origin, &settings.allow).map_err(|refused| refused.to_string())?;
        known(settings, manifest)
    }

    fn maintain(&self, _: &[Arc<Manifest>]) {
        self.clients.tidy(IDLE);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.clients.clear();
        std::future::ready(()).boxed()
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move { self.call(&invocation).await }.boxed()
    }
}

/// Checks that templates use only arguments that the schema allows.
fn known(settings: &Settings, manifest: &Manifest) -> Result<(), String> {
    let Some(schema) = &manifest.input_schema else { return Ok(()) };
    let closed = schema.get("additionalProperties") == Some(&serde_json::Value::Bool(false));
    let Some(properties) = schema.get("properties").and_then(|it| it.as_object()).filter(|_| closed) else {
        return Ok(());
    };
    match settings.placed.iter().find(|name| !properties.contains_key(*name)) {
        Some(name) => Err(format!("its templates name '{{{name}}}', which is not one of its parameters")),
        None => Ok(()),
    }
}

fn unavailable() -> RawOutput {
    RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker"))
}

/// Returns the headers that each request of a call contains: trace context, session and principal.
fn context_headers(invocation: &Invocation) -> HeaderMap {
    let trace = [
        (TRACEPARENT, invocation.traceparent.as_str()),
        (TRACESTATE, &invocation.tracestate),
        (TRACE_ID, &invocation.trace_id),
    ];
    trace.into_iter().chain(caller(&invocation.session_id, &invocation.principal)).filter_map(header).collect()
}

/// Returns the headers of the session and its principal. Omits the session if the principal can't be sent, because
/// it would look like an anonymous caller's session.
fn caller<'a>(session_id: &'a str, principal: &'a str) -> impl Iterator<Item = (&'static str, &'a str)> {
    let can_be_sent = principal.is_empty() || header((PRINCIPAL, principal)).is_some();
    [(SESSION_ID, session_id), (PRINCIPAL, principal)].into_iter().filter(move |_| can_be_sent)
}

/// Creates a header. Returns `None` if the value is empty or contains control characters. Other text is sent as
/// UTF-8.
fn header((name, value): (&'static str, &str)) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_bytes(value.as_bytes()).ok().filter(|it| !it.is_empty())?;
    Some((HeaderName::from_static(name), value))
}

fn build_request(request: &Request, context: &HeaderMap) -> reqwest::Request {
    let mut built = reqwest::Request::new(request.method.clone(), request.url.clone());
    let headers = built.headers_mut();
    headers.clone_from(&request.headers);
    headers.extend(context.clone());
    *built.body_mut() = request.body.clone().map(Into::into);
    built
}

/// Begins a request's span, according to the semantic conventions for HTTP clients. It omits the path and query, which
/// may contain arguments and secrets. `resent`: the number of redirects before it.
fn begin_span(invocation: &Invocation, request: &Request, resent: u8) -> Option<ClientSpan> {
    // Known methods are constants. Others are copied from the manifest.
    let method = request.method.as_str().to_owned();
    let mut attributes = vec![
        KeyValue::new("http.request.method", method.clone()),
        KeyValue::new("url.scheme", request.url.scheme().to_owned()),
    ];
    attributes.extend(request.url.host_str().map(|host| KeyValue::new("server.address", host.to_owned())));
    let port = request.url.port_or_known_default();
    attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
    if resent > 0 {
        attributes.push(KeyValue::new("http.request.resend_count", i64::from(resent)));
    }
    invocation.trace.request(method, attributes, invocation.deadline)
}

/// Ends a request's span. `status`: that of the response, if there is one. `failure`: the error if the call failed
/// despite the status.
fn end_span(span: Option<ClientSpan>, status: Option<u16>, failure: Option<ErrorCode>) {
    let Some(span) = span else { return };
    let error = status.filter(|status| *status >= 400).map(|status| status.to_string().into());
    let error = error.or_else(|| failure.map(|code| code.as_str_name().into()));
    span.end(status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))), error);
}

/// Masks the worker's secrets in the output.
fn without(secrets: &Secrets, raw: RawOutput) -> RawOutput {
    let scrub = |error: SkillError| {
        let more = error.more.map(|more| match more {
            More::DetailsJson(text) => More::DetailsJson(secrets.scrub_json(text)),
            other => other,
        });
        SkillError { message: secrets.scrub_text(error.message), more, ..error }
    };
    match raw {
        RawOutput::Failed(error) => RawOutput::Failed(scrub(error)),
        RawOutput::NotStarted(error) => RawOutput::NotStarted(scrub(error)),
        RawOutput::Value(json) => RawOutput::Value(secrets.scrub_json(json)),
        RawOutput::Answer { json, otherwise, refused } => {
            RawOutput::Answer { json: secrets.scrub_json(json), otherwise: otherwise.map(scrub), refused }
        }
        other => other,
    }
}

/// Does not log the error itself, because it may contain the server's text, such as the debug data of a GOAWAY
/// frame.
fn log_unanswered(invocation: &Invocation, error: &SendError, skill_error: &SkillError) {
    if !openskill_telemetry::log::admits("a skill's request failed") {
        return;
    }
    let (trace_id, skill_id) = (&invocation.trace_id, &invocation.manifest.id);
    let io = cause::<std::io::Error>(error).map(std::io::Error::kind);
    tracing::info!(trace_id, skill_id, error.code = skill_error.code().as_str_name(), ?io, "a skill's request failed");
    if !invocation.has_secrets {
        tracing::debug!(trace_id, skill_id, ?error, "request of the skill failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(session_id: &str, principal: &str) -> Vec<(HeaderName, Vec<u8>)> {
        caller(session_id, principal)
            .filter_map(header)
            .map(|(name, value)| (name, value.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn a_session_is_sent_with_its_principal() {
        let both = |session: &str, principal: &str| {
            vec![
                (HeaderName::from_static(SESSION_ID), session.as_bytes().to_vec()),
                (HeaderName::from_static(PRINCIPAL), principal.as_bytes().to_vec()),
            ]
        };
        assert_eq!(sent("s1", "ada"), both("s1", "ada"));
        assert_eq!(sent("Gespräch", "Zoë"), both("Gespräch", "Zoë"));
        assert_eq!(sent("s1", ""), both("s1", "")[..1]);
        assert_eq!(sent("", "ada"), both("", "ada")[1..]);
        assert!(sent("", "").is_empty());
    }

    #[test]
    fn a_session_is_not_sent_without_its_principal() {
        assert!(sent("s1", "a\nb").is_empty());
    }
}
