//! Answers reflection requests of both versions. An unknown name gets an error within the stream, which stays open.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _};
use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_reflection::pb::{v1, v1alpha};

/// Indexes files by name, and by the symbols they define.
#[derive(Default)]
pub(super) struct Index {
    services: Vec<&'static str>,
    files: HashMap<String, Arc<[u8]>>,
    symbols: HashMap<String, Arc<[u8]>>,
    messages: HashSet<String>,
}

impl Index {
    pub(super) fn new(files: &[FileDescriptorProto], services: &[&'static str]) -> Self {
        let mut index = Self { services: services.to_vec(), ..Self::default() };
        for file in files {
            let (bytes, mut symbols) = (Arc::<[u8]>::from(file.encode_to_vec()), Vec::new());
            index.files.insert(file.name().to_owned(), Arc::clone(&bytes));
            for message in &file.message_type {
                index.add_message(file.package(), message, &mut symbols);
            }
            for kind in &file.enum_type {
                add_enum(file.package(), kind, &mut symbols);
            }
            for service in &file.service {
                let name = join(file.package(), service.name());
                symbols.extend(service.method.iter().map(|it| join(&name, it.name())));
                symbols.push(name);
            }
            index.symbols.extend(symbols.into_iter().map(|symbol| (symbol, Arc::clone(&bytes))));
        }
        index
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto, symbols: &mut Vec<String>) {
        let name = join(scope, message.name());
        symbols.extend(message.field.iter().map(|it| join(&name, it.name())));
        symbols.extend(message.oneof_decl.iter().map(|it| join(&name, it.name())));
        for nested in &message.nested_type {
            self.add_message(&name, nested, symbols);
        }
        for kind in &message.enum_type {
            add_enum(&name, kind, symbols);
        }
        symbols.push(name.clone());
        self.messages.insert(name);
    }
}

/// Adds an enum and its values. In protobuf, the values belong to the scope that contains the enum.
fn add_enum(scope: &str, kind: &EnumDescriptorProto, symbols: &mut Vec<String>) {
    symbols.extend(kind.value.iter().map(|it| join(scope, it.name())));
    symbols.push(join(scope, kind.name()));
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// The reflection service, in both versions.
#[derive(Clone)]
pub(super) struct Reflection {
    pub(super) index: Arc<Index>,
}

macro_rules! serve {
    ($version:ident, $answer:ident) => {
        #[tonic::async_trait]
        impl $version::server_reflection_server::ServerReflection for Reflection {
            type ServerReflectionInfoStream = BoxStream<'static, Result<$version::ServerReflectionResponse, Status>>;

            async fn server_reflection_info(
                &self,
                requests: Request<Streaming<$version::ServerReflectionRequest>>,
            ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
                let index = Arc::clone(&self.index);
                let answers = requests.into_inner().map(move |request| request.map(|it| $answer(&index, it)));
                Ok(Response::new(answers.boxed()))
            }
        }

        fn $answer(index: &Index, request: $version::ServerReflectionRequest) -> $version::ServerReflectionResponse {
            use $version::server_reflection_request::MessageRequest;
            use $version::server_reflection_response::MessageResponse;
            use $version::{
                ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse, ServiceResponse,
            };
            let file = |bytes: &Arc<[u8]>| {
                MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
                    file_descriptor_proto: vec![bytes.to_vec()],
                })
            };
            let found = match &request.message_request {
                Some(MessageRequest::FileByFilename(name)) => index.files.get(name).map(file),
                Some(MessageRequest::FileContainingSymbol(name)) => index.symbols.get(name).map(file),
                // The API defines no extensions.
                Some(MessageRequest::FileContainingExtension(_)) | None => None,
                Some(MessageRequest::AllExtensionNumbersOfType(name)) => index.messages.get(name).map(|name| {
                    let base_type_name = name.clone();
                    MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
                        base_type_name,
                        ..ExtensionNumberResponse::default()
                    })
                }),
                Some(MessageRequest::ListServices(_)) => {
                    let service = index.services.iter().map(|it| ServiceResponse { name: (*it).to_owned() });
                    Some(MessageResponse::ListServicesResponse(ListServiceResponse { service: service.collect() }))
                }
            };
            let code = if request.message_request.is_some() { Code::NotFound } else { Code::InvalidArgument };
            let error = || ErrorResponse { error_code: code.into(), error_message: code.description().to_owned() };
            $version::ServerReflectionResponse {
                valid_host: request.host.clone(),
                original_request: Some(request),
                message_response: Some(found.unwrap_or_else(|| MessageResponse::ErrorResponse(error()))),
            }
        }
    };
}

serve!(v1, answer_v1);
serve!(v1alpha, answer_v1alpha);

#[cfg(test)]
mod tests {
    use prost_types::FileDescriptorSet;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    use super::*;

    /// Returns the error code of a response, or 0 for success.
    fn code(asked: Option<MessageRequest>) -> i32 {
        let sets = [openskill_proto::DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET];
        let files: Vec<_> = sets.iter().flat_map(|it| FileDescriptorSet::decode(*it).unwrap().file).collect();
        let index = Index::new(&files, &[]);
        let request = ServerReflectionRequest { host: "h".to_owned(), message_request: asked };
        let answer = answer_v1(&index, request.clone());
        assert_eq!((answer.valid_host.as_str(), answer.original_request), ("h", Some(request)));
        match answer.message_response.unwrap() {
            MessageResponse::ErrorResponse(error) => error.error_code,
            _ => 0,
        }
    }

    #[test]
    fn what_is_not_found_is_an_error_in_the_answer_and_every_kind_of_symbol_is_found() {
        for symbol in [
            "openskill.v1.SkillService",
            "openskill.v1.SkillService.Invoke",
            "openskill.v1.InvokeRequest",
            "openskill.v1.InvokeRequest.skill_id",
            "openskill.v1.InvokeRequest.arguments",
            "openskill.v1.ErrorCode",
            "openskill.v1.ERROR_CODE_UNSPECIFIED",
            "grpc.health.v1.HealthCheckResponse.SERVING",
        ] {
            assert_eq!(code(Some(MessageRequest::FileContainingSymbol(symbol.to_owned()))), 0, "{symbol}");
        }
        let message = |name: &str| Some(MessageRequest::AllExtensionNumbersOfType(name.to_owned()));
        assert_eq!(code(message("openskill.v1.InvokeRequest")), 0);
        for unknown in [
            message("no.Such"),
            Some(MessageRequest::FileContainingSymbol("no.Such".to_owned())),
            Some(MessageRequest::FileContainingSymbol(String::new())),
            Some(MessageRequest::FileByFilename("none.proto".to_owned())),
            Some(MessageRequest::FileContainingExtension(v1::ExtensionRequest::default())),
        ] {
            assert_eq!(code(unknown.clone()), Code::NotFound as i32, "{unknown:?}");
        }
        assert_eq!(code(None), Code::InvalidArgument as i32);
    }
}
