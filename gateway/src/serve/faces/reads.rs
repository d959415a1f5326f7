//! Which requests are no calls and still have responses worth a bound. Probes have none: they are short, and always answered.

use http::{Extensions, HeaderMap, Method, Response};
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::grpc::{protocol, reflection, status};
use super::rest::{answer, body};
use crate::serve::bodies::outbound::Answer;
use crate::serve::layers::bodies::Refused;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// The pool that a request counts towards. None: a call, or a probe.
pub(crate) fn which(method: &Method, path: &str) -> Option<SharedLimit> {
    if *method == Method::POST {
        return match path {
            "/openskill.v1.SkillService/ListSkills"
            | "/openskill.v1.SkillService/GetSkill"
            | "/openskill.v1.SkillService/ExportTools"
            | "/openskill.v1.SkillService/ReadArtifact" => Some(SharedLimit::Catalog),
            "/openskill.v1.AdminService/ListWorkers" | "/openskill.v1.AdminService/ListCircuits" => {
                Some(SharedLimit::Operations)
            }
            "/openskill.v1.TraceService/ListTraces"
            | "/openskill.v1.TraceService/GetTrace"
            | "/openskill.v1.TraceService/FollowTraces" => Some(SharedLimit::Traces),
            "/openskill.v1.AgentService/WatchConversation"
            | "/openskill.v1.AgentService/ListConversations"
            | "/openskill.v1.AgentService/GetConversation" => Some(SharedLimit::Conversations),
            "/openskill.v1.SkillService/WatchSkills" => Some(SharedLimit::Watchers),
            "/openskill.v1.SkillService/InvokeMany" | "/openskill.v1.AgentService/Chat" => {
                Some(SharedLimit::CallStreams)
            }
            path if reflection::is_for(path) => Some(SharedLimit::Watchers),
            _ => None,
        };
    }
    match path.strip_prefix('/')?.split('/').next()? {
        "" | "docs" | "openapi.json" => Some(SharedLimit::Pages),
        "skills" | "tools" | "artifacts" => Some(SharedLimit::Catalog),
        "metrics" => Some(SharedLimit::Operations),
        "traces" => Some(SharedLimit::Traces),
        "agent" => Some(SharedLimit::Conversations),
        _ => None,
    }
}

/// The answer to a request past the share of its principal.
pub(crate) fn refuse(limit: SharedLimit, headers: &HeaderMap, extensions: &Extensions) -> Response<Answer> {
    let what = limit.name();
    let message = format!("this caller has its share of {what}, or there are no more: end some, or come back later");
    let error = SkillError::overloaded(message);
    if protocol::has_grpc_type(headers) {
        return status::of(&error).into_http::<tonic::body::Body>().map(Answer::Grpc);
    }
    answer(body::error(&error, &request_context(extensions).trace.id))
}

/// The answer in place of one that its principal has no room for.
pub(crate) fn too_much(refused: &Refused) -> Response<Answer> {
    let message =
        "the response was dropped: this caller, or others, have too many that they do not read. Read them first";
    // It may have been that of a call: nobody may send that again by itself.
    let error = SkillError { may_have_run: true, ..SkillError::new(ErrorCode::OutputTooLarge, message) };
    let error = error.with_blame(Blame::Gateway);
    match refused {
        Refused::Grpc => status::of(&error).into_http::<tonic::body::Body>().map(Answer::Grpc),
        Refused::Rest(trace_id) => answer(body::error(&error, trace_id)),
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::admin_service_server::SERVICE_NAME as ADMIN;
    use openskill_proto::v1::agent_service_server::SERVICE_NAME as AGENT;
    use openskill_proto::v1::skill_service_server::SERVICE_NAME as SKILLS;
    use openskill_proto::v1::trace_service_server::SERVICE_NAME as TRACES;

    use super::*;

    #[test]
    fn pages_the_catalog_and_metrics_are_reads() {
        for (path, expected) in [
            ("/", SharedLimit::Pages),
            ("/docs/swagger-ui-bundle.js", SharedLimit::Pages),
            ("/openapi.json", SharedLimit::Pages),
            ("/skills", SharedLimit::Catalog),
            ("/skills/echo", SharedLimit::Catalog),
            ("/tools", SharedLimit::Catalog),
            ("/artifacts/a/b", SharedLimit::Catalog),
            ("/metrics", SharedLimit::Operations),
            ("/traces", SharedLimit::Traces),
            ("/traces/demo-1", SharedLimit::Traces),
            ("/agent/conversations/conv_1/events", SharedLimit::Conversations),
        ] {
            assert_eq!(which(&Method::GET, path), Some(expected), "{path}");
            assert_eq!(which(&Method::HEAD, path), Some(expected), "{path}");
        }
        for method in ["ListSkills", "GetSkill", "ExportTools", "ReadArtifact"] {
            assert_eq!(which(&Method::POST, &format!("/{SKILLS}/{method}")), Some(SharedLimit::Catalog), "{method}");
        }
        for method in ["ListWorkers", "ListCircuits"] {
            assert_eq!(which(&Method::POST, &format!("/{ADMIN}/{method}")), Some(SharedLimit::Operations), "{method}");
        }
        for method in ["WatchConversation", "ListConversations", "GetConversation"] {
            assert_eq!(
                which(&Method::POST, &format!("/{AGENT}/{method}")),
                Some(SharedLimit::Conversations),
                "{method}"
            );
        }
        for (path, expected) in [
            (format!("/{SKILLS}/WatchSkills"), SharedLimit::Watchers),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned(), SharedLimit::Watchers),
            (format!("/{SKILLS}/InvokeMany"), SharedLimit::CallStreams),
            (format!("/{AGENT}/Chat"), SharedLimit::CallStreams),
        ] {
            assert_eq!(which(&Method::POST, &path), Some(expected), "{path}");
        }
        for method in ["ListTraces", "GetTrace", "FollowTraces"] {
            assert_eq!(which(&Method::POST, &format!("/{TRACES}/{method}")), Some(SharedLimit::Traces), "{method}");
        }
    }

    #[test]
    fn calls_and_probes_are_not() {
        for path in ["/skills/echo:invoke", "/skills:stream", "/questions/1:answer", "/agent/chat"] {
            assert_eq!(which(&Method::POST, path), None, "{path}");
        }
        for method in ["Invoke", "InvokeStream", "AnswerInput"] {
            assert_eq!(which(&Method::POST, &format!("/{SKILLS}/{method}")), None, "{method}");
        }
        assert_eq!(which(&Method::POST, &format!("/{AGENT}/DeleteConversation")), None);
        for path in ["/healthz", "/readyz", "*"] {
            assert_eq!(which(&Method::GET, path), None, "{path}");
        }
    }
}
