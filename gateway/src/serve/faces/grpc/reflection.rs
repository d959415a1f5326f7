//! gRPC reflection, in both versions that clients ask for. Each shows the services that its listener serves, among them both
//! versions of itself, and no others: clients describe whatever is listed.

use openskill_agent::faces::grpc::SERVICE_NAME as AGENT;
use openskill_proto::DESCRIPTORS;
use openskill_proto::v1::{admin_service_server, skill_service_server, trace_service_server};
use tonic::service::Routes;
use tonic_reflection::pb::{v1, v1alpha};
use tonic_reflection::server::Builder;

/// Served on every listener.
const ALWAYS: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// What operators use.
const ADMIN: [&str; 2] = [admin_service_server::SERVICE_NAME, trace_service_server::SERVICE_NAME];

/// The services of the public listener.
pub(crate) fn public(with_admin: bool, with_agent: bool) -> Vec<&'static str> {
    let admin = with_admin.then_some(ADMIN).into_iter().flatten();
    let agent = with_agent.then_some(AGENT);
    [skill_service_server::SERVICE_NAME].into_iter().chain(agent).chain(admin).chain(ALWAYS).collect()
}

/// The services of a listener that serves an agent alone.
pub(crate) fn agent() -> Vec<&'static str> {
    [AGENT].into_iter().chain(ALWAYS).collect()
}

/// The services of the admin listener.
pub(crate) fn admin() -> Vec<&'static str> {
    ADMIN.into_iter().chain(ALWAYS).collect()
}

/// Those of these services that callers see who are no administrators.
pub(crate) fn without_administration(services: &[&'static str]) -> Vec<&'static str> {
    services.iter().copied().filter(|it| *it != admin_service_server::SERVICE_NAME).collect()
}

/// Whether a path is one of reflection.
pub(crate) fn is_for(path: &str) -> bool {
    path.starts_with("/grpc.reflection.")
}

/// Adds the reflection services, which show `services`.
///
/// # Errors
/// The compiled descriptors can't be read.
pub(crate) fn add_to(routes: Routes, services: &[&'static str]) -> std::io::Result<Routes> {
    let v1 = builder(services).build_v1().map_err(std::io::Error::other)?;
    let v1alpha = builder(services).build_v1alpha().map_err(std::io::Error::other)?;
    Ok(routes.add_service(v1).add_service(v1alpha))
}

fn builder(services: &[&'static str]) -> Builder<'static> {
    let builder = Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(v1alpha::FILE_DESCRIPTOR_SET);
    services.iter().fold(builder, |builder, service| builder.with_service_name(*service))
}
