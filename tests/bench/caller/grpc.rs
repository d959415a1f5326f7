//! Unary calls by tonic. All callers share one connection.

use std::net::SocketAddr;

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{ErrorCode, ExportToolsRequest, SkillResult};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::{Ask, Failure, Numbers};

/// Answers may be large: two thousand tools, a megabyte of text.
const MAX_ANSWER: usize = 64 << 20;

pub(crate) async fn connect(address: SocketAddr) -> Result<SkillServiceClient<Channel>, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let channel = endpoint.tcp_nodelay(true).connect().await.map_err(|error| error.to_string())?;
    Ok(SkillServiceClient::new(channel).max_decoding_message_size(MAX_ANSWER).max_encoding_message_size(MAX_ANSWER))
}

pub(crate) struct Unary {
    client: SkillServiceClient<Channel>,
    ask: Ask,
    numbers: Numbers,
}

impl Unary {
    pub(crate) fn new(client: SkillServiceClient<Channel>, ask: Ask, numbers: Numbers) -> Self {
        Self { client, ask, numbers }
    }

    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        let request = (self.ask)(self.numbers.next());
        succeeded(self.client.invoke(request).await.map_err(failure)?.get_ref())
    }
}

pub(crate) struct Export {
    client: SkillServiceClient<Channel>,
    tools: usize,
}

impl Export {
    pub(crate) fn new(client: SkillServiceClient<Channel>, tools: usize) -> Self {
        Self { client, tools }
    }

    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        let answer = self.client.export_tools(ExportToolsRequest::default()).await.map_err(failure)?;
        let tools = answer.get_ref().tools_json.len();
        if tools == self.tools { Ok(()) } else { Err(format!("{tools} tools and not {}", self.tools).into()) }
    }
}

fn failure(status: Status) -> Failure {
    match status.code() {
        Code::ResourceExhausted => Failure::Refused,
        _ => Failure::Broken(status.message().to_owned()),
    }
}

/// Whether a result is a success; if not, why.
pub(super) fn succeeded(result: &SkillResult) -> Result<(), Failure> {
    match &result.error {
        None => Ok(()),
        Some(error) if error.code() == ErrorCode::Overloaded => Err(Failure::Refused),
        Some(error) => Err(format!("{}: {}", error.code().as_str_name(), error.message).into()),
    }
}
