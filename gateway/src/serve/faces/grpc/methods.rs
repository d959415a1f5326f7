//! Which methods take a stream of messages, and which answer with one. The descriptors say so.

use std::collections::HashSet;
use std::sync::LazyLock;

use openskill_proto::DESCRIPTORS;
use prost::Message as _;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};

/// The paths of all client-streaming methods that the gateway serves.
static CLIENT_STREAMING: LazyLock<HashSet<String>> = LazyLock::new(|| paths(MethodDescriptorProto::client_streaming));

/// The paths of all server-streaming methods that the gateway serves, but health.
static SERVER_STREAMING: LazyLock<HashSet<String>> = LazyLock::new(|| paths(MethodDescriptorProto::server_streaming));

fn paths(wanted: fn(&MethodDescriptorProto) -> bool) -> HashSet<String> {
    let sets = [
        DESCRIPTORS,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    sets.into_iter().flat_map(|set| streaming(set, wanted)).collect()
}

/// Whether the request to this path is a stream of messages.
pub(crate) fn is_client_streaming(path: &str) -> bool {
    CLIENT_STREAMING.contains(path)
}

/// Whether the answer to this path is a stream of messages.
pub(crate) fn is_server_streaming(path: &str) -> bool {
    SERVER_STREAMING.contains(path)
}

fn streaming(descriptors: &[u8], wanted: fn(&MethodDescriptorProto) -> bool) -> Vec<String> {
    // Descriptors are compiled in; the tests below read every one of them.
    let files = FileDescriptorSet::decode(descriptors).unwrap_or_default().file;
    let services = files.into_iter().flat_map(|file| {
        let package = file.package.unwrap_or_default();
        file.service.into_iter().map(move |service| (package.clone(), service))
    });
    let methods = services.flat_map(|(package, service)| {
        let name = service.name.unwrap_or_default();
        let streaming = service.method.into_iter().filter(wanted);
        streaming.map(move |method| format!("/{package}.{name}/{}", method.name.unwrap_or_default()))
    });
    methods.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_that_take_a_stream_are_found_in_the_descriptors() {
        for path in [
            "/openskill.v1.SkillService/InvokeMany",
            "/openskill.v1.AgentService/Chat",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ] {
            assert!(is_client_streaming(path), "{path}");
        }
        assert!(!is_client_streaming("/openskill.v1.SkillService/InvokeStream"));
        assert_eq!(CLIENT_STREAMING.len(), 4);
    }

    #[test]
    fn methods_that_answer_with_a_stream_are_found_in_the_descriptors() {
        for method in [
            "SkillService/InvokeStream",
            "SkillService/InvokeMany",
            "SkillService/WatchSkills",
            "TraceService/FollowTraces",
            "AgentService/Chat",
            "AgentService/WatchConversation",
        ] {
            assert!(is_server_streaming(&format!("/openskill.v1.{method}")), "{method}");
        }
        assert!(!is_server_streaming("/openskill.v1.SkillService/Invoke"));
    }
}
