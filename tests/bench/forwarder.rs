//! Tonic alone: a server that echoes, and a forwarder in front of it, connected as gateway and worker are. Each is this
//! binary, started again as a process of its own. Both end when their stdin closes, so neither outlives the benchmark.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::Read as _;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InvokeRequest, Meta, SkillResult, skill_result};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::settings;

/// As many as the gateway allows on a connection.
const MAX_STREAMS: u32 = 1024;

pub(crate) fn run(settings: &settings::Forwarder) -> Result<(), String> {
    let mut runtime = match settings.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(settings.threads).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(serve(settings)).map_err(|error| error.to_string())
}

async fn serve(settings: &settings::Forwarder) -> Result<(), Box<dyn std::error::Error>> {
    let next = settings.to.clone().map(Endpoint::from_shared).transpose()?;
    let bare = Bare { next: next.map(|next| SkillServiceClient::new(next.connect_lazy())) };
    let router = Server::builder().max_concurrent_streams(MAX_STREAMS).add_service(bare);
    let (closed, stdin_closed) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(closed);
    });
    let stdin_closed = async {
        let _ = stdin_closed.await;
    };
    match settings.listen.strip_prefix("unix:") {
        Some(path) => {
            let incoming = UnixListenerStream::new(UnixListener::bind(path)?);
            router.serve_with_incoming_shutdown(incoming, stdin_closed).await?;
        }
        None => {
            let incoming = TcpIncoming::from(TcpListener::bind(&settings.listen).await?).with_nodelay(Some(true));
            router.serve_with_incoming_shutdown(incoming, stdin_closed).await?;
        }
    }
    Ok(())
}

/// `Invoke`, whatever method is called.
#[derive(Clone)]
struct Bare {
    next: Option<SkillServiceClient<Channel>>,
}

impl NamedService for Bare {
    const NAME: &'static str = "openskill.v1.SkillService";
}

impl Service<http::Request<Body>> for Bare {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let next = self.next.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::default());
            Ok(match next {
                Some(next) => {
                    let forward = service_fn(move |request: Request<InvokeRequest>| {
                        let mut next = next.clone();
                        async move { next.invoke(request.into_inner()).await }
                    });
                    grpc.unary(forward, request).await
                }
                None => grpc.unary(service_fn(echo), request).await,
            })
        })
    }
}

/// A result of the shape and the size of openskill's echo.
fn echo(request: Request<InvokeRequest>) -> Ready<Result<Response<SkillResult>, Status>> {
    let request = request.into_inner();
    let Some(Arguments::InputJson(text)) = request.arguments else {
        return ready(Err(Status::invalid_argument("JSON is needed")));
    };
    let meta = Meta {
        latency_ms: 0.25,
        version: "0.0.0".to_owned(),
        runner: "inproc".to_owned(),
        worker_id: "worker-1".to_owned(),
        attempts: 1,
        ..Meta::default()
    };
    ready(Ok(Response::new(SkillResult {
        success: true,
        text: format!("{} succeeded in 0.25 ms", request.skill_id),
        skill_id: request.skill_id,
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        output: Some(skill_result::Output::DataJson(text)),
        meta: Some(meta),
        ..SkillResult::default()
    })))
}
