//! A streamed exchange with a provider. All sizes and times are limited.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use openskill_text::sse::DecodeError;
use reqwest::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Response, Url};

use crate::config::{AnswerLimits, Secret};
use crate::failure::{self, sanitize};
use crate::frames::MAX_FRAME_BYTES;
use crate::model::{ModelError, ModelResponse};
use crate::wire::{Fold, Reader, WireError};

/// The maximum number of bytes read from an error response, and the timeout for reading them.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

/// The server of a provider.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) client: Client,
    /// The provider name, for error messages.
    pub(crate) provider: String,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The API key, which is masked in messages from the server.
    pub(crate) key: Option<Secret>,
    pub(crate) limits: AnswerLimits,
}

impl Server {
    /// Sends a request and folds the answer. Dropping the future closes the connection.
    ///
    /// # Errors
    /// The exchange failed: see [`ModelError`]. Some text may have already been passed on.
    pub(crate) async fn ask(
        &self,
        body: Vec<u8>,
        fold: Box<dyn Fold>,
        text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ModelResponse, ModelError> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        let sent = tokio::time::timeout(self.limits.first, request.send()).await;
        let response =
            sent.map_err(|_| self.silence_error(self.limits.first))?.map_err(|error| self.unreachable_error(&error))?;
        if !response.status().is_success() {
            return Err(self.error_from_response(response).await);
        }
        if response.headers().get(CONTENT_ENCODING).is_some_and(|it| it != "identity") {
            return Err(self.malformed_error("it is compressed, which the request did not accept"));
        }
        self.read(response, fold, text).await
    }

    async fn read(
        &self,
        mut response: Response,
        fold: Box<dyn Fold>,
        text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ModelResponse, ModelError> {
        let (mut reader, mut bytes, mut patience) = (Reader::new(fold), 0, self.limits.first);
        while let Some(chunk) = self.chunk(&mut response, patience).await? {
            if bytes == 0 && begins_otherwise(&chunk) {
                let body = beginning(response, chunk.to_vec()).await;
                return Err(failure::error_from_unstreamed(&self.provider, &body, self.key.as_ref()));
            }
            bytes += chunk.len();
            if bytes > self.limits.max_bytes {
                return Err(self.too_large_error(self.limits.max_bytes));
            }
            patience = self.limits.between;
            if reader.take(&chunk, text).map_err(|error| self.model_error(error))? {
                break;
            }
        }
        reader.end(text).map_err(|error| self.model_error(error))
    }

    /// Returns the next chunk, or `None` at the end of the body.
    async fn chunk(&self, response: &mut Response, patience: Duration) -> Result<Option<bytes::Bytes>, ModelError> {
        let chunk = tokio::time::timeout(patience, response.chunk()).await.map_err(|_| self.silence_error(patience))?;
        chunk.map_err(|_| self.model_error(WireError::CutOff))
    }

    async fn error_from_response(&self, response: Response) -> ModelError {
        let status = response.status();
        let header = |name: &HeaderName| response.headers().get(name).and_then(|it| it.to_str().ok());
        if let Some(place) = header(&LOCATION).filter(|_| status.is_redirection()) {
            let place = self.url.join(place).map(|it| it.origin().ascii_serialization());
            let place = sanitize(&place.unwrap_or_default(), self.key.as_ref());
            let reason = format!("it redirects to {place}, which is not followed: change the base URL if you trust it");
            let provider = self.provider.clone();
            return ModelError::Refused { provider, status: status.as_u16(), reason, retry_after: None };
        }
        let millis = header(&HeaderName::from_static("retry-after-ms"));
        let retry_after = failure::retry_after(millis, header(&RETRY_AFTER), SystemTime::now());
        let body = beginning(response, Vec::new()).await;
        failure::error_from_status(&self.provider, status.as_u16(), &body, retry_after, self.key.as_ref())
    }

    fn model_error(&self, error: WireError) -> ModelError {
        match error {
            WireError::Frames(DecodeError::TooLarge) => self.too_large_error(MAX_FRAME_BYTES),
            WireError::Frames(DecodeError::NotUtf8) => self.malformed_error("it is not UTF-8"),
            WireError::CutOff => ModelError::CutOff { provider: self.provider.clone() },
            WireError::Malformed(reason) => ModelError::Unreadable { provider: self.provider.clone(), reason },
            WireError::Failed(failure) => failure.into_error(&self.provider, self.key.as_ref()),
        }
    }

    fn unreachable_error(&self, error: &reqwest::Error) -> ModelError {
        let what = if error.is_connect() { "the connection failed" } else { "the connection broke before the answer" };
        // Use the innermost cause, which says what happened. The outer errors may contain the URL.
        let cause = std::iter::successors(error.source(), |cause| (*cause).source()).last();
        let cause = cause.map(|it| format!(": {}", sanitize(&it.to_string(), self.key.as_ref()))).unwrap_or_default();
        let reason = format!("{what} ({}{cause})", self.url.origin().ascii_serialization());
        ModelError::Unreachable { provider: self.provider.clone(), reason }
    }

    fn silence_error(&self, patience: Duration) -> ModelError {
        let reason = format!("it sent nothing for {} s", patience.as_secs_f64());
        ModelError::Unreachable { provider: self.provider.clone(), reason }
    }

    fn malformed_error(&self, reason: &str) -> ModelError {
        ModelError::Malformed { provider: self.provider.clone(), reason: reason.to_owned() }
    }

    fn too_large_error(&self, bound: usize) -> ModelError {
        ModelError::TooLarge { provider: self.provider.clone(), bound }
    }
}

/// Returns a header value with a credential, marked as sensitive so that logs don't show it.
///
/// # Errors
/// The credential contains characters that are invalid in a header.
pub(crate) fn credential(prefix: &str, key: &Secret) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()));
    let mut value = value.map_err(|_| "has characters that an HTTP header can't contain".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns whether a body begins like JSON or HTML and is therefore not an event stream.
fn begins_otherwise(chunk: &[u8]) -> bool {
    let first = chunk.iter().find(|it| !it.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(it));
    matches!(first, Some(b'{' | b'[' | b'<'))
}

/// Returns the beginning of a body, as much as arrives in time. The error is reported even if its text is
/// incomplete.
async fn beginning(mut response: Response, mut body: Vec<u8>) -> String {
    let read = async {
        while body.len() < MAX_ERROR_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // On a timeout, use what has arrived.
    let _ = tokio::time::timeout(ERROR_TIMEOUT, read).await;
    body.truncate(MAX_ERROR_BYTES);
    String::from_utf8_lossy(&body).into_owned()
}
