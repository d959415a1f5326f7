//! gRPC reflection, in both versions that clients ask for. It shows the services that are served here, and no others.

use openskill_proto::DESCRIPTORS;
use openskill_proto::v1::{admin_service_server, skill_service_server};
use tonic::service::Routes;
use tonic_reflection::server::{Builder, Error};

const SERVICES: [&str; 4] = [
    skill_service_server::SERVICE_NAME,
    admin_service_server::SERVICE_NAME,
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
];

/// Adds the reflection services.
///
/// # Errors
/// The compiled descriptors can't be read.
pub(crate) fn add_to(routes: Routes) -> Result<Routes, Error> {
    Ok(routes.add_service(builder().build_v1()?).add_service(builder().build_v1alpha()?))
}

fn builder() -> Builder<'static> {
    let builder = Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    SERVICES.into_iter().fold(builder, Builder::with_service_name)
}
