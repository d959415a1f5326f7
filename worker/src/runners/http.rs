//! `http`: a request to an HTTP back end, as the manifest describes it.
//!
//! ```text
//! arguments -> request (templates) -> egress (may it go there?) -> client -> redirect? -> response -> normalize
//! ```
//!
//! A request belongs to the call's future: dropping it closes the connection. Nothing is retried here; the gateway retries
//! skills that are idempotent.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::metadata::{SESSION_ID, TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::v1::{ErrorCode, SkillError, skill_error::More};
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};

use crate::manifest::http::Http as Settings;
use crate::manifest::{How, Manifest};
use crate::runner::{Invocation, RawOutput, Runner};

mod arguments;
pub(crate) mod client;
pub(crate) mod egress;
mod messages;
mod percent;
mod pointer;
mod redirect;
mod request;
mod response;
pub(crate) mod secrets;
mod status;

use client::Clients;
use egress::Reach;
use request::Request;
use secrets::Secrets;

/// The runner.
pub(crate) struct Http {
    clients: Clients,
}

impl Http {
    pub(crate) fn new() -> Self {
        Self { clients: Clients::new() }
    }

    async fn call(&self, invocation: &Invocation) -> RawOutput {
        let How::Http(settings) = &invocation.manifest.how else { return unavailable() };
        let Ok(secrets) = Secrets::of(settings) else { return unavailable() };
        let answered = match request::fill(settings, &invocation.input, &secrets) {
            Ok(request) => {
                let sent = self.send(request, settings, invocation);
                self.clients.for_skill(&invocation.manifest.id, sent).await
            }
            Err(error) => Err(error),
        };
        let raw = match answered {
            Ok(response) => response::read(response, settings, &secrets, &invocation.events).await,
            Err(error) => RawOutput::Failed(error),
        };
        response::bounded(without(&secrets, raw))
    }

    /// Sends the request, and follows redirects.
    async fn send(
        &self,
        mut request: Request,
        settings: &Settings,
        invocation: &Invocation,
    ) -> Result<reqwest::Response, SkillError> {
        let context = context_headers(invocation);
        let mut left = settings.redirects;
        loop {
            let reach = Reach::of(&request.url, &settings.allow).map_err(|refused| status::of_refusal(&refused))?;
            let client = self.clients.get(reach).await.map_err(|error| {
                tracing::error!(error, "an HTTP client cannot be created");
                SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker")
            })?;
            let response = client.execute(prepared(&request, &context)).await.map_err(|error| {
                let error = error.without_url();
                tracing::info!(
                    trace_id = invocation.trace_id, skill_id = invocation.manifest.id, error = ?error,
                    "a skill's request failed"
                );
                status::of_fault(&error)
            })?;
            let code = response.status().as_u16();
            let Some(location) = response.headers().get(LOCATION).filter(|_| redirect::is_redirect(code)) else {
                return Ok(response);
            };
            if left == 0 {
                let message = format!(
                    "the server redirected the request more than {} times, which is as often as the manifest allows \
                     (http.redirects)",
                    settings.redirects
                );
                return Err(SkillError::new(ErrorCode::ExecutionError, message));
            }
            left -= 1;
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            request = redirect::follow(request, code, &location).map_err(redirect::Broken::into_error)?;
        }
    }
}

impl Runner for Http {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let How::Http(settings) = &manifest.how else { return Err("it names no server".to_owned()) };
        Secrets::of(settings)?;
        Reach::of(&settings.target.origin, &settings.allow).map_err(|refused| refused.to_string())?;
        known(settings, manifest)
    }

    fn tend(&self, _: &[Arc<Manifest>]) {
        self.clients.tidy(client::IDLE);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.clients.clear();
        std::future::ready(()).boxed()
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move { self.call(&invocation).await }.boxed()
    }
}

/// A template must not name an argument that the schema excludes.
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
    RawOutput::Failed(SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker"))
}

/// What every request of a call carries: its trace and its session.
fn context_headers(invocation: &Invocation) -> HeaderMap {
    let all = [
        (TRACEPARENT, &invocation.traceparent),
        (TRACESTATE, &invocation.tracestate),
        (TRACE_ID, &invocation.trace_id),
        (SESSION_ID, &invocation.session_id),
    ];
    let given = all.into_iter().filter(|it| !it.1.is_empty());
    given
        .filter_map(|(name, value)| {
            Some((reqwest::header::HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
        })
        .collect()
}

fn prepared(request: &Request, context: &HeaderMap) -> reqwest::Request {
    let mut prepared = reqwest::Request::new(request.method.clone(), request.url.clone());
    let headers = prepared.headers_mut();
    headers.clone_from(&request.headers);
    headers.extend(context.clone());
    *prepared.body_mut() = request.body.as_ref().map(|body| body.bytes.clone().into());
    prepared
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
        RawOutput::Value(json) => RawOutput::Value(secrets.scrub_json(json)),
        RawOutput::Answer { json, otherwise } => {
            RawOutput::Answer { json: secrets.scrub_json(json), otherwise: otherwise.map(scrub) }
        }
        other => other,
    }
}
