//! A caller: makes one call after the other, in the way of its contender. The same client for all of one way.
//!
//! - [`grpc`]: unary calls by tonic, all callers over one connection
//! - [`many`]: `InvokeMany` streams over one connection
//! - [`rest`]: HTTP/1.1, a connection for each caller
//! - [`mcp`]: streamable HTTP of MCP, a connection and a session for each caller

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use openskill_proto::v1::InvokeRequest;

mod grpc;
mod many;
mod mcp;
mod rest;

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// For overload: nothing was started, and the caller is to come again.
    Refused,
    Broken(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Broken(reason)
    }
}

/// Makes the request of the call with this number.
pub(crate) type Ask = Arc<dyn Fn(u64) -> InvokeRequest + Send + Sync>;

/// What is called, and how.
#[derive(Clone)]
pub(crate) enum Target {
    /// `Invoke`.
    Unary(SocketAddr, Ask),
    /// `InvokeMany`.
    Many(SocketAddr, Ask),
    /// `POST` of a body to a path; the answer has to hold what was sent.
    Rest(SocketAddr, String, String),
    /// `tools/call` of a tool.
    Mcp(SocketAddr, String),
    /// `ExportTools` of a catalog that has so many.
    Export(SocketAddr, usize),
}

/// Numbers the calls of all callers.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Rc<Cell<u64>>);

impl Numbers {
    fn next(&self) -> u64 {
        self.0.replace(self.0.get() + 1)
    }
}

/// One caller.
pub(crate) enum Caller {
    Unary(grpc::Unary),
    Many(many::Many),
    Rest(rest::Rest),
    Mcp(mcp::Mcp),
    Export(grpc::Export),
}

impl Caller {
    /// Makes one call, which has to succeed.
    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        match self {
            Self::Unary(caller) => caller.call().await,
            Self::Many(caller) => caller.call().await,
            Self::Rest(caller) => caller.call().await,
            Self::Mcp(caller) => caller.call().await,
            Self::Export(caller) => caller.call().await,
        }
    }
}

/// Connects so many callers. To be called within a `LocalSet`.
pub(crate) async fn dial(target: &Target, callers: usize) -> Result<Vec<Caller>, String> {
    let numbers = Numbers::default();
    match target {
        Target::Unary(address, ask) => {
            let client = grpc::connect(*address).await?;
            let caller = || Caller::Unary(grpc::Unary::new(client.clone(), ask.clone(), numbers.clone()));
            Ok(std::iter::repeat_with(caller).take(callers).collect())
        }
        Target::Many(address, ask) => {
            let callers = many::open(*address, ask, &numbers, callers).await?;
            Ok(callers.into_iter().map(Caller::Many).collect())
        }
        Target::Rest(address, path, body) => {
            let mut all = Vec::new();
            for _ in 0..callers {
                all.push(Caller::Rest(rest::Rest::connect(*address, path, body).await?));
            }
            Ok(all)
        }
        Target::Mcp(address, tool) => {
            let sessions = (0..callers).map(|_| mcp::Mcp::connect(*address, tool));
            let sessions = futures_util::future::try_join_all(sessions).await?;
            Ok(sessions.into_iter().map(Caller::Mcp).collect())
        }
        Target::Export(address, tools) => {
            let client = grpc::connect(*address).await?;
            let caller = || Caller::Export(grpc::Export::new(client.clone(), *tools));
            Ok(std::iter::repeat_with(caller).take(callers).collect())
        }
    }
}
