//! Writes one artifact of an operation to stdout.

use std::io::Write as _;

use openskill_proto::v1::ReadOperationArtifactRequest;

use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;

/// Writes an artifact, byte for byte.
pub(super) async fn write(name: String, number: u32, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::operation_service(settings).await?;
    let request = ReadOperationArtifactRequest { name, number, ..ReadOperationArtifactRequest::default() };
    let mut pieces = client.read_artifact(request).await.map_err(client::into_failure(settings))?.into_inner();
    while let Some(piece) = pieces.message().await.map_err(client::into_failure(settings))? {
        let mut out = std::io::stdout().lock();
        out.write_all(&piece.data).and_then(|()| out.flush()).map_err(Failure::system("writing to stdout"))?;
    }
    Ok(())
}
