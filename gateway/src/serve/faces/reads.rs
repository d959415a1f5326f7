//! Which requests are no calls and still have responses worth a bound. Probes have none: they are short, and always answered.

use http::{Extensions, HeaderMap, Method, Response};
use openskill_proto::v1::SkillError;

use super::grpc::{protocol, status};
use super::rest::{answer, body};
use crate::serve::bodies::outbound::Answer;
use crate::serve::layers::reads::Read;
use crate::serve::layers::request_context;

/// The group of a request, if it is a read.
pub(crate) fn which(method: &Method, path: &str) -> Option<Read> {
    if *method == Method::POST {
        return match path {
            "/openskill.v1.SkillService/ListSkills"
            | "/openskill.v1.SkillService/GetSkill"
            | "/openskill.v1.SkillService/ExportTools"
            | "/openskill.v1.SkillService/ReadArtifact" => Some(Read::Catalog),
            "/openskill.v1.AdminService/ListWorkers" | "/openskill.v1.AdminService/ListCircuits" => {
                Some(Read::Operations)
            }
            "/openskill.v1.TraceService/ListTraces"
            | "/openskill.v1.TraceService/GetTrace"
            | "/openskill.v1.TraceService/FollowTraces" => Some(Read::Traces),
            "/openskill.v1.AgentService/WatchConversation"
            | "/openskill.v1.AgentService/ListConversations"
            | "/openskill.v1.AgentService/GetConversation" => Some(Read::Conversations),
            _ => None,
        };
    }
    match path.strip_prefix('/')?.split('/').next()? {
        "" | "docs" | "openapi.json" => Some(Read::Page),
        "skills" | "tools" | "artifacts" => Some(Read::Catalog),
        "metrics" => Some(Read::Operations),
        "traces" => Some(Read::Traces),
        "agent" => Some(Read::Conversations),
        _ => None,
    }
}

/// The answer to a read past the bound.
pub(crate) fn refuse(headers: &HeaderMap, extensions: &Extensions) -> Response<Answer> {
    let error =
        SkillError::overloaded("too many responses are in flight that are no calls: read them, or come back later");
    if protocol::has_grpc_type(headers) {
        return status::of(&error).into_http::<tonic::body::Body>().map(Answer::Grpc);
    }
    answer(body::error(&error, &request_context(extensions).trace.id))
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
            ("/", Read::Page),
            ("/docs/swagger-ui-bundle.js", Read::Page),
            ("/openapi.json", Read::Page),
            ("/skills", Read::Catalog),
            ("/skills/echo", Read::Catalog),
            ("/tools", Read::Catalog),
            ("/artifacts/a/b", Read::Catalog),
            ("/metrics", Read::Operations),
            ("/traces", Read::Traces),
            ("/traces/demo-1", Read::Traces),
            ("/agent/conversations/conv_1/events", Read::Conversations),
        ] {
            assert_eq!(which(&Method::GET, path), Some(expected), "{path}");
            assert_eq!(which(&Method::HEAD, path), Some(expected), "{path}");
        }
        for method in ["ListSkills", "GetSkill", "ExportTools", "ReadArtifact"] {
            assert_eq!(which(&Method::POST, &format!("/{SKILLS}/{method}")), Some(Read::Catalog), "{method}");
        }
        for method in ["ListWorkers", "ListCircuits"] {
            assert_eq!(which(&Method::POST, &format!("/{ADMIN}/{method}")), Some(Read::Operations), "{method}");
        }
        for method in ["WatchConversation", "ListConversations", "GetConversation"] {
            assert_eq!(which(&Method::POST, &format!("/{AGENT}/{method}")), Some(Read::Conversations), "{method}");
        }
        for method in ["ListTraces", "GetTrace", "FollowTraces"] {
            assert_eq!(which(&Method::POST, &format!("/{TRACES}/{method}")), Some(Read::Traces), "{method}");
        }
    }

    #[test]
    fn calls_and_probes_are_not() {
        for path in ["/skills/echo:invoke", "/skills:stream", "/questions/1:answer", "/agent/chat"] {
            assert_eq!(which(&Method::POST, path), None, "{path}");
        }
        for method in ["Invoke", "InvokeStream", "InvokeMany", "AnswerInput", "WatchSkills"] {
            assert_eq!(which(&Method::POST, &format!("/{SKILLS}/{method}")), None, "{method}");
        }
        for method in ["Chat", "DeleteConversation"] {
            assert_eq!(which(&Method::POST, &format!("/{AGENT}/{method}")), None, "{method}");
        }
        for path in ["/healthz", "/readyz", "*"] {
            assert_eq!(which(&Method::GET, path), None, "{path}");
        }
    }
}
