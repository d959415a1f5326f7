//! What openskill is measured against: the same message through tonic alone, one hop or two. Each is this very binary,
//! started again as a process of its own.
//!
//! ```text
//! bench bare-server    --listen 127.0.0.1:0|unix:/path                --flavour current|multi
//! bench bare-forwarder --listen 127.0.0.1:0            --to unix:/path --flavour current|multi
//! ```
//!
//! Each says where it listens and ends when its stdin does, so that none outlives the benchmark.

use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::Stream;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::skill_service_server::{SkillService, SkillServiceServer};
use openskill_proto::v1::*;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// As many as the gateway lets one connection have.
const MAX_STREAMS: u32 = 1024;

/// The threads of the flavour `multi`: a machine's of two cores.
const THREADS: usize = 2;

/// A runtime of the flavour that was asked for.
pub(crate) fn runtime(flavour: &str) -> std::io::Result<Runtime> {
    match flavour {
        "multi" => Builder::new_multi_thread().worker_threads(THREADS).enable_all().build(),
        _ => Builder::new_current_thread().enable_all().build(),
    }
}

/// Serves until stdin ends. With `to`, calls go on to there.
pub(crate) async fn serve(listen: &str, to: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let next = match to {
        Some(to) => Some(SkillServiceClient::new(Endpoint::from_shared(to.to_owned())?.connect().await?)),
        None => None,
    };
    let bare = Bare { next, number: Arc::default() };
    let router = Server::builder().max_concurrent_streams(MAX_STREAMS).add_service(SkillServiceServer::new(bare));
    let ended = stdin_ended();
    match listen.strip_prefix("unix:") {
        Some(path) => {
            let listener = UnixListener::bind(path)?;
            println!("{listen}");
            tokio::select! {
                served = router.serve_with_incoming(UnixListenerStream::new(listener)) => served?,
                _ = ended => {}
            }
        }
        None => {
            let listener = TcpListener::bind(listen).await?;
            println!("{}", listener.local_addr()?);
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            tokio::select! {
                served = router.serve_with_incoming(incoming) => served?,
                _ = ended => {}
            }
        }
    }
    Ok(())
}

/// Comes when whoever started this process closes its stdin, or ends.
pub(crate) fn stdin_ended() -> tokio::sync::oneshot::Receiver<()> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        let _ = sender.send(());
    });
    receiver
}

/// Answers, or passes on.
#[derive(Clone)]
struct Bare {
    next: Option<SkillServiceClient<Channel>>,
    number: Arc<AtomicU64>,
}

type Events = Pin<Box<dyn Stream<Item = Result<InvokeEvent, Status>> + Send>>;
type Changes = Pin<Box<dyn Stream<Item = Result<CatalogChange, Status>> + Send>>;

fn no() -> Status {
    Status::unimplemented("only Invoke is measured")
}

#[tonic::async_trait]
impl SkillService for Bare {
    async fn invoke(&self, request: Request<InvokeRequest>) -> Result<Response<SkillResult>, Status> {
        match &self.next {
            Some(next) => next.clone().invoke(request.into_inner()).await,
            None => Ok(Response::new(self.echo(request.into_inner()))),
        }
    }

    type InvokeStreamStream = Events;
    async fn invoke_stream(&self, _: Request<InvokeRequest>) -> Result<Response<Events>, Status> {
        Err(no())
    }

    type InvokeManyStream = Events;
    async fn invoke_many(&self, _: Request<Streaming<InvokeRequest>>) -> Result<Response<Events>, Status> {
        Err(no())
    }

    async fn list_skills(&self, _: Request<ListSkillsRequest>) -> Result<Response<ListSkillsResponse>, Status> {
        Err(no())
    }

    async fn get_skill(&self, _: Request<GetSkillRequest>) -> Result<Response<Skill>, Status> {
        Err(no())
    }

    type WatchSkillsStream = Changes;
    async fn watch_skills(&self, _: Request<WatchSkillsRequest>) -> Result<Response<Changes>, Status> {
        Err(no())
    }

    async fn export_tools(&self, _: Request<ExportToolsRequest>) -> Result<Response<ExportToolsResponse>, Status> {
        Err(no())
    }

    async fn answer_input(&self, _: Request<InputResponse>) -> Result<Response<AnswerInputResponse>, Status> {
        Err(no())
    }

    async fn read_artifact(&self, _: Request<ReadArtifactRequest>) -> Result<Response<ReadArtifactResponse>, Status> {
        Err(no())
    }
}

impl Bare {
    /// A result of the shape and the size that openskill's echo has.
    fn echo(&self, request: InvokeRequest) -> SkillResult {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let output = match request.arguments {
            Some(Arguments::InputJson(text)) => Some(skill_result::Output::DataJson(text)),
            _ => None,
        };
        let meta = Meta {
            latency_ms: 0.25,
            version: "0.0.0".to_owned(),
            runner: "inproc".to_owned(),
            worker_id: "worker-1".to_owned(),
            attempts: 1,
            ..Meta::default()
        };
        SkillResult {
            success: true,
            text: format!("{} succeeded in 0.25 ms", request.skill_id),
            skill_id: request.skill_id,
            trace_id: format!("{number:032x}"),
            output,
            meta: Some(meta),
            ..SkillResult::default()
        }
    }
}
