//! gRPC reflection, in both versions that clients use. Shows only the services of its listener, including
//! reflection itself. Other services can't be found by any name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openskill_agent::faces::grpc::SERVICE_NAME as AGENT;
use openskill_proto::DESCRIPTORS;
use openskill_proto::longrunning::operations_server;
use openskill_proto::v1::{admin_service_server, operation_service_server, skill_service_server, trace_service_server};
use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tonic::service::Routes;
use tonic_reflection::pb::{v1, v1alpha};

mod service;

use service::{Index, Reflection};

/// The services on every listener.
const ALWAYS: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// The services for callers.
const CALLERS: [&str; 3] =
    [skill_service_server::SERVICE_NAME, operation_service_server::SERVICE_NAME, operations_server::SERVICE_NAME];

/// The services for operators.
const ADMIN: [&str; 2] = [admin_service_server::SERVICE_NAME, trace_service_server::SERVICE_NAME];

/// Returns the names of the services on the public listener.
pub(crate) fn public(with_admin: bool, with_agent: bool) -> Vec<&'static str> {
    let admin = with_admin.then_some(ADMIN).into_iter().flatten();
    let agent = with_agent.then_some(AGENT);
    CALLERS.into_iter().chain(agent).chain(admin).chain(ALWAYS).collect()
}

/// Returns the names of the services on a listener that serves only an agent.
pub(crate) fn agent() -> Vec<&'static str> {
    [AGENT].into_iter().chain(ALWAYS).collect()
}

/// Returns the names of the services on the admin listener.
pub(crate) fn admin() -> Vec<&'static str> {
    ADMIN.into_iter().chain(ALWAYS).collect()
}

/// Removes the services that only administrators may see.
pub(crate) fn without_administration(services: &[&'static str]) -> Vec<&'static str> {
    services.iter().copied().filter(|it| *it != admin_service_server::SERVICE_NAME).collect()
}

/// Whether a path is a reflection method.
pub(crate) fn is_for(path: &str) -> bool {
    path.starts_with("/grpc.reflection.")
}

/// Adds the reflection services, which show `services`.
///
/// # Errors
/// The compiled descriptors can't be read.
pub(crate) fn add_to(routes: Routes, services: &[&'static str]) -> std::io::Result<Routes> {
    let reflection = Reflection { index: Arc::new(Index::new(&files(services)?.file, services)) };
    let v1 = v1::server_reflection_server::ServerReflectionServer::new(reflection.clone());
    let v1alpha = v1alpha::server_reflection_server::ServerReflectionServer::new(reflection);
    Ok(routes.add_service(v1).add_service(v1alpha))
}

/// Returns the files of `services` and their imports, without other services, so that an unlisted service can't be
/// found by a file or symbol name.
fn files(services: &[&'static str]) -> std::io::Result<FileDescriptorSet> {
    let mut files = BTreeMap::new();
    for set in
        [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET, v1::FILE_DESCRIPTOR_SET, v1alpha::FILE_DESCRIPTOR_SET]
    {
        let set = FileDescriptorSet::decode(set).map_err(std::io::Error::other)?;
        files.extend(set.file.into_iter().map(|file| (file.name().to_owned(), without_others(file, services))));
    }
    let mut shown = BTreeSet::new();
    let mut next: Vec<&String> = files.iter().filter(|(_, it)| !it.service.is_empty()).map(|(name, _)| name).collect();
    while let Some(name) = next.pop() {
        if shown.insert(name.clone()) {
            next.extend(files.get(name).into_iter().flat_map(|it| &it.dependency));
        }
    }
    files.retain(|name, _| shown.contains(name));
    Ok(FileDescriptorSet { file: files.into_values().collect() })
}

/// Removes unlisted services from a file. If it had any, also removes its comments.
fn without_others(mut file: FileDescriptorProto, services: &[&'static str]) -> FileDescriptorProto {
    let (package, before) = (file.package().to_owned(), file.service.len());
    file.service.retain(|it| services.iter().any(|shown| *shown == format!("{package}.{}", it.name())));
    if file.service.len() < before {
        file.source_code_info = None;
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(services: &[&'static str]) -> (Vec<String>, String) {
        let mut files = files(services).unwrap();
        // Comments may mention hidden services.
        files.file.iter_mut().for_each(|it| it.source_code_info = None);
        let names = files.file.iter().map(|it| it.name().to_owned()).collect();
        (names, String::from_utf8_lossy(&files.encode_to_vec()).into_owned())
    }

    #[test]
    fn what_is_not_listed_is_in_no_file() {
        let (names, all) = text(&public(true, true));
        assert!(names.iter().any(|it| it.ends_with("admin.proto")) && all.contains("AdminService"), "{names:?}");
        assert!(!all.contains("WorkerService"), "it is not served here");
        let (names, limited) = text(&without_administration(&public(true, true)));
        assert!(!names.iter().any(|it| it.ends_with("admin.proto")), "{names:?}");
        for hidden in ["AdminService", "ListWorkers", "ResetCircuits", "WorkerService", "ExecuteRequest"] {
            assert!(!limited.contains(hidden), "{hidden}");
        }
        for shown in ["SkillService", "TraceService", "AgentService", "ServerReflection", "Health", "Struct"] {
            assert!(limited.contains(shown), "{shown}");
        }
        let (_, without_agent) = text(&public(false, false));
        assert!(!without_agent.contains("AgentService") && without_agent.contains("AgentDefinition"));
    }
}
