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
use openskill_egress::cause::cause;
use openskill_egress::client::{Clients, IDLE};
use openskill_egress::reach::Reach;
use openskill_egress::transport::SendError;
use openskill_proto::metadata::{PRINCIPAL, SESSION_ID, TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::v1::{ErrorCode, SkillError, skill_error::More};
use openskill_sandbox::untrusted_json::{LIGHT_BYTES, off_shard};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};

use crate::manifest::http::Http as Settings;
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};

mod arguments;
mod messages;
mod pointer;
mod redirect;
mod request;
mod response;
pub(crate) mod secrets;
mod status;
mod traced;

use request::Request;
use secrets::Secrets;

pub(crate) struct Http {
    clients: Clients,
}

/// The response to the last request, after redirects.
struct Answered {
    response: reqwest::Response,
    was_redirected: bool,
    /// The request's span, which ends when the response was read.
    span: Option<openskill_trace::call::ClientSpan>,
}

impl Http {
    pub(crate) fn new() -> Self {
        Self { clients: Clients::default() }
    }

    async fn call(&self, invocation: &Invocation) -> RawOutput {
        let RunnerSpec::Http(settings) = &invocation.manifest.how else { return unavailable() };
        let Ok(secrets) = Secrets::from_env(settings) else { return unavailable() };
        let answered = match request::fill(settings, &invocation.input, &secrets) {
            Ok(request) => {
                let sent = self.send(request, settings, invocation);
                self.clients.for_skill(&invocation.manifest.id, sent).await
            }
            Err(error) => Err(RawOutput::NotStarted(error)),
        };
        let raw = match answered {
            Ok(Answered { response, was_redirected, span }) => {
                let status = response.status().as_u16();
                let mut raw = response::read(response, settings, &secrets, &invocation.events).await;
                traced::end(span, status, unread(&raw));
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
    ) -> Result<Answered, RawOutput> {
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
            let mut span = traced::begin(invocation, &request, settings.redirects - left);
            if let Some(traceparent) = traced::header(span.as_ref()) {
                context.insert(TRACEPARENT, traceparent);
            }
            let response = client.execute(build_request(&request, &context)).await.map_err(|error| {
                let skill_error = status::error_from_send(&error);
                log_unanswered(invocation, &error, &skill_error);
                traced::fail(span.take(), skill_error.code());
                let failed = if error.was_unsent() { unsent } else { RawOutput::Failed };
                failed(skill_error)
            })?;
            let code = response.status().as_u16();
            let Some(location) = response.headers().get(LOCATION).filter(|_| redirect::is_redirect(code)) else {
                return Ok(Answered { response, was_redirected: left < settings.redirects, span });
            };
            let last = (left == 0).then_some(ErrorCode::ExecutionError);
            traced::end(span, code, last);
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
            let followed = redirect::follow(request, code, &location);
            request = followed.map_err(|broken| RawOutput::Failed(broken.into_error()))?;
            if !redirect::same_origin(&settings.target.origin, &request.url) {
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
        Secrets::from_env(settings)?;
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

/// Returns why a successful response is not data: it is incomplete or does not match the manifest.
fn unread(raw: &RawOutput) -> Option<ErrorCode> {
    match raw {
        RawOutput::Failed(error) => Some(error.code()),
        _ => None,
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
    *built.body_mut() = request.body.as_ref().map(|body| body.bytes.clone().into());
    built
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
    if !openskill_log::admits("a skill's request failed") {
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
