//! An HTTP server for skills to call. A test decides its answers, and it records the requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

/// An answer.
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: BoxStream<'static, Bytes>,
}

impl Reply {
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let length = ("content-length".to_owned(), body.len().to_string());
        let whole = futures_util::stream::iter([body]).boxed();
        Self { status, headers: vec![("content-type".to_owned(), content_type.to_owned()), length], body: whole }
    }

    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::new(status, "application/json", value.to_string())
    }

    /// A body that is sent in pieces.
    pub fn pieces(content_type: &str, body: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { status: 200, headers: vec![("content-type".to_owned(), content_type.to_owned())], body: body.boxed() }
    }

    /// A redirect.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::new(status, "text/plain", "").with("location", location)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

type Behaviour = dyn Fn(&Seen) -> Reply + Send + Sync;

#[derive(Default)]
struct State {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

/// The server, which stops when it is dropped.
pub struct Backend {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Backend {
    pub async fn start(behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), behaviour)
    }

    /// One at an address of the test's choice.
    pub fn on(listener: TcpListener, behaviour: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let task = tokio::spawn(accept(listener, Arc::clone(&state), Arc::new(behaviour)));
        Self { address, state, task }
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// The last request.
    pub fn last(&self) -> Seen {
        self.seen().pop().expect("a request")
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn open_connections(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, behaviour: Arc<Behaviour>) {
    // The connections end with this task.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (state, behaviour) = (Arc::clone(&state), Arc::clone(&behaviour));
        state.connections.fetch_add(1, Ordering::SeqCst);
        state.open.fetch_add(1, Ordering::SeqCst);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&state), Arc::clone(&behaviour)));
            let server = auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            state.open.fetch_sub(1, Ordering::SeqCst);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    request: http::Request<Incoming>,
    state: Arc<State>,
    behaviour: Arc<Behaviour>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    // Over HTTP/2, a URI has a host.
    let target = parts.uri.path_and_query().map_or_else(|| parts.uri.to_string(), ToString::to_string);
    let seen = Seen { method: parts.method, target, headers: parts.headers, body };
    state.seen.lock().unwrap().push(seen.clone());
    let reply = behaviour(&seen);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let body = StreamBody::new(reply.body.map(|piece| Ok(Frame::data(piece))));
    Ok(response.body(body).unwrap())
}
