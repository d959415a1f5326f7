//! Fetches one operation.

use openskill_proto::longrunning::{GetOperationRequest, Operation};

use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;

/// Fetches an operation, with its result if it has ended.
pub(in crate::commands) async fn fetch(name: &str, settings: &Settings) -> Result<Operation, Failure> {
    let mut client = client::operations(settings).await?;
    let request = GetOperationRequest { name: name.to_owned() };
    Ok(client.get_operation(request).await.map_err(client::into_failure(settings))?.into_inner())
}
