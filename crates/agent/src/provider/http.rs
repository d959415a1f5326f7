//! One streamed exchange with a provider. Everything is bounded while it is read.

use std::error::Error as _;
use std::sync::Once;
use std::time::{Duration, SystemTime};

use reqwest::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

use super::failure::{self, shown};
use super::frames::{FrameError, MAX_FRAME_BYTES};
use super::model::{ModelError, Reply};
use super::reader::{ReadError, Reader};
use super::secret::Secret;
use super::wire::{Fault, Fold};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// How much of an error's body is read, and for how long.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept, and how many of them to one provider.
const POOL_IDLE: Duration = Duration::from_secs(60);
const POOL_PER_HOST: usize = 32;

/// How many headers an answer may have, and how large all of them may be over HTTP/2.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_LIST_BYTES: u32 = 64 * 1024;

/// How long a provider may be silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Before the first bytes of its answer. Local servers read a long conversation for minutes.
    pub(super) first: Duration,
    /// Between later ones.
    pub(super) between: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { first: Duration::from_secs(600), between: Duration::from_secs(300) }
    }
}

/// A client for all providers. It follows no redirects, which would carry keys elsewhere, and uses no proxy.
///
/// # Errors
/// The system lacks what a client needs.
pub(super) fn client() -> Result<Client, String> {
    static CRYPTOGRAPHY: Once = Once::new();
    CRYPTOGRAPHY.call_once(|| {
        // Another thread may have installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let builder = || {
        Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_PER_HOST)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
    };
    builder().build().or_else(|error| {
        // Without the system's certificates no https server can be trusted, but local ones have no need of them.
        tracing::warn!(%error, "the system has no usable certificates: model providers over https will fail");
        builder().tls_certs_only([]).build().map_err(|error| error.to_string())
    })
}

/// One provider, as an exchange needs it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) client: Client,
    /// Its name, for errors.
    pub(super) provider: String,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Masked in what the server says.
    pub(super) key: Option<Secret>,
    pub(super) patience: Patience,
}

impl Server {
    /// Sends a request, and folds the answer. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`ModelError`]. Text may have been handed on before.
    pub(super) async fn ask(
        &self,
        body: Vec<u8>,
        fold: Box<dyn Fold>,
        text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Reply, ModelError> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        let sent = tokio::time::timeout(self.patience.first, request.send()).await;
        let response = sent.map_err(|_| self.silent(self.patience.first))?.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        if response.headers().get(CONTENT_ENCODING).is_some_and(|it| it != "identity") {
            return Err(self.malformed("it is compressed, which the request did not accept"));
        }
        self.read(response, fold, text).await
    }

    async fn read(
        &self,
        mut response: Response,
        fold: Box<dyn Fold>,
        text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Reply, ModelError> {
        let (mut reader, mut bytes, mut patience) = (Reader::new(fold), 0, self.patience.first);
        while let Some(chunk) = self.chunk(&mut response, patience).await? {
            if bytes == 0 && begins_otherwise(&chunk) {
                let body = beginning(response, chunk.to_vec()).await;
                return Err(failure::of_unstreamed(&self.provider, &body, self.key.as_ref()));
            }
            bytes += chunk.len();
            if bytes > MAX_ANSWER_BYTES {
                return Err(self.too_large(MAX_ANSWER_BYTES));
            }
            patience = self.patience.between;
            if reader.take(&chunk, text).map_err(|error| self.unread(error))? {
                break;
            }
        }
        reader.end(text).map_err(|fault| self.fault(fault))
    }

    /// The next bytes. None at the end of the body.
    async fn chunk(&self, response: &mut Response, patience: Duration) -> Result<Option<bytes::Bytes>, ModelError> {
        let chunk = tokio::time::timeout(patience, response.chunk()).await.map_err(|_| self.silent(patience))?;
        chunk.map_err(|_| self.fault(Fault::CutOff))
    }

    async fn refused(&self, response: Response) -> ModelError {
        let status = response.status();
        let header = |name: &HeaderName| response.headers().get(name).and_then(|it| it.to_str().ok());
        if let Some(place) = header(&LOCATION).filter(|_| status.is_redirection()) {
            let place = self.url.join(place).map(|it| it.origin().ascii_serialization());
            let place = shown(&place.unwrap_or_default(), self.key.as_ref());
            let reason = format!("it redirects to {place}, which is not followed: change the base URL if you trust it");
            let provider = self.provider.clone();
            return ModelError::Refused { provider, status: status.as_u16(), reason, retry_after: None };
        }
        let millis = header(&HeaderName::from_static("retry-after-ms"));
        let retry_after = failure::retry_after(millis, header(&RETRY_AFTER), SystemTime::now());
        let body = beginning(response, Vec::new()).await;
        failure::of_status(&self.provider, status.as_u16(), &body, retry_after, self.key.as_ref())
    }

    fn fault(&self, fault: Fault) -> ModelError {
        match fault {
            Fault::CutOff => ModelError::CutOff { provider: self.provider.clone() },
            Fault::Malformed(reason) => ModelError::Unreadable { provider: self.provider.clone(), reason },
            Fault::Failed(said) => said.into_error(&self.provider, self.key.as_ref()),
        }
    }

    fn unread(&self, error: ReadError) -> ModelError {
        match error {
            ReadError::Frames(FrameError::TooLarge) => self.too_large(MAX_FRAME_BYTES),
            ReadError::Frames(FrameError::NotUtf8) => self.malformed("it is not UTF-8"),
            ReadError::Fold(fault) => self.fault(fault),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ModelError {
        let what = if error.is_connect() { "the connection failed" } else { "the connection broke before the answer" };
        // The innermost cause says what happened; the outer ones may name the URL.
        let mut cause = error.source();
        while let Some(inner) = cause.and_then(|it| it.source()) {
            cause = Some(inner);
        }
        let cause = cause.map(|it| format!(": {}", shown(&it.to_string(), self.key.as_ref()))).unwrap_or_default();
        let reason = format!("{what} ({}{cause})", self.url.origin().ascii_serialization());
        ModelError::Unreachable { provider: self.provider.clone(), reason }
    }

    fn silent(&self, patience: Duration) -> ModelError {
        let reason = format!("it sent nothing for {} s", patience.as_secs_f64());
        ModelError::Unreachable { provider: self.provider.clone(), reason }
    }

    fn malformed(&self, reason: &str) -> ModelError {
        ModelError::Malformed { provider: self.provider.clone(), reason: reason.to_owned() }
    }

    fn too_large(&self, bound: usize) -> ModelError {
        ModelError::TooLarge { provider: self.provider.clone(), bound }
    }
}

/// A header's value that no log shows.
///
/// # Errors
/// The credential has characters that no header can carry.
pub(super) fn credential(prefix: &str, key: &Secret) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()));
    let mut value = value.map_err(|_| "has characters that no HTTP header can carry".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether a body begins as JSON or HTML does: no stream of events does.
fn begins_otherwise(chunk: &[u8]) -> bool {
    let first = chunk.iter().find(|it| !it.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(it));
    matches!(first, Some(b'{' | b'[' | b'<'))
}

/// The beginning of a body, as far as it arrives in time: an error is reported even if its text is incomplete.
async fn beginning(mut response: Response, mut body: Vec<u8>) -> String {
    let read = async {
        while body.len() < MAX_ERROR_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // What came in time counts.
    let _ = tokio::time::timeout(ERROR_TIMEOUT, read).await;
    body.truncate(MAX_ERROR_BYTES);
    String::from_utf8_lossy(&body).into_owned()
}
