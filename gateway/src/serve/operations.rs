//! The table of all operations that listeners serve: a row for each gRPC method and each HTTP route.
//!
//! The router, the layers before it and `/openapi.json` are generated from the rows. A new endpoint needs a row
//! here, a handler, and a description in `faces/rest/openapi/paths.json`.

mod template;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use openskill_agent::faces::Served;
use openskill_agent::faces::rest as agent;
use serde_json::{Map, Value};

use super::faces::mcp;
use super::faces::rest::{
    artifacts, call, catalog, docs, health, openapi, operations, questions, running_calls, tools, traces,
};
use super::traces::Traces;
use crate::call::operation::{Access, Audit, HttpMethod, Operation, Protocol, Streaming};
use crate::gateway::Shard;
use crate::state::limits::SharedLimit;

/// A row of the table: an operation and its handler.
pub(crate) struct Row {
    pub(crate) operation: Operation,
    handler: Handler,
}

/// The handler of a row. The variant determines which listeners serve it, and which state it needs.
#[derive(Clone, Copy)]
enum Handler {
    /// A tonic service handles it.
    Grpc,
    /// The handler of an earlier row handles it, and distinguishes the verbs behind a parameter.
    Verb,
    /// Served on every listener.
    Probe(Handle<Shard>),
    /// Served on the listeners of a gateway.
    GatewayProbe(Handle<Shard>),
    /// Served on the listener of an agent without a gateway.
    AgentProbe(Handle<Shard>),
    /// Served on the public listener of a gateway.
    Skills(Handle<Shard>),
    Traces(Handle<Traces>),
    Agent(Handle<Served>),
}

type Handle<S> = fn(MethodFilter) -> MethodRouter<S>;

/// A handler for the HTTP method of its row.
macro_rules! handle {
    ($kind:ident, $function:path) => {
        Handler::$kind(|method| on(method, $function))
    };
}

const fn grpc(path: &'static str) -> Row {
    Row { operation: Operation::grpc(path), handler: Handler::Grpc }
}

const fn http(name: &'static str, handler: Handler) -> Row {
    Row { operation: Operation::http(name), handler }
}

impl Row {
    const fn streams(self, streaming: Streaming) -> Self {
        Self { operation: Operation { streaming, ..self.operation }, ..self }
    }

    const fn over(self, protocol: Protocol) -> Self {
        Self { operation: Operation { protocol, ..self.operation }, ..self }
    }

    const fn open(self) -> Self {
        Self { operation: Operation { access: Access::Open, ..self.operation }, ..self }
    }

    const fn for_administrators(self, audit: Audit) -> Self {
        let (access, audit) = (Access::Administrator, Some(audit));
        Self { operation: Operation { access, audit, ..self.operation }, ..self }
    }

    const fn audit(self, audit: Audit) -> Self {
        Self { operation: Operation { audit: Some(audit), ..self.operation }, ..self }
    }

    const fn limit(self, limit: SharedLimit) -> Self {
        Self { operation: Operation { limit: Some(limit), ..self.operation }, ..self }
    }
}

/// Calls come first because rows are searched from the top.
pub(crate) static OPERATIONS: &[Row] = &[
    grpc("/openskill.v1.SkillService/Invoke"),
    grpc("/openskill.v1.SkillService/InvokeStream").streams(Streaming::Server),
    grpc("/openskill.v1.SkillService/InvokeMany").streams(Streaming::Both).limit(SharedLimit::CallStreams),
    http("POST /skills/{id}:invoke", handle!(Skills, call::post)),
    http("POST /skills/{id}:stream", Handler::Verb).streams(Streaming::Server),
    http("POST /skills/{id}:prepare", Handler::Verb),
    // An unknown verb, or an escaped one.
    http("POST /skills/{id}", Handler::Verb),
    http("POST /skills:invoke", handle!(Skills, call::invoke)),
    http("POST /skills:stream", handle!(Skills, call::stream)).streams(Streaming::Server),
    http("POST /skills:prepare", handle!(Skills, call::prepare)),
    http("POST /mcp", handle!(Skills, mcp::post)).over(Protocol::Mcp),
    http("GET /mcp", handle!(Skills, mcp::get)).over(Protocol::Mcp),
    http("DELETE /mcp", handle!(Skills, mcp::delete)).over(Protocol::Mcp),
    http("POST /mcp/{view}", handle!(Skills, mcp::post)).over(Protocol::Mcp),
    http("GET /mcp/{view}", handle!(Skills, mcp::get)).over(Protocol::Mcp),
    http("DELETE /mcp/{view}", handle!(Skills, mcp::delete)).over(Protocol::Mcp),
    grpc("/openskill.v1.SkillService/PrepareCall"),
    grpc("/openskill.v1.SkillService/AnswerInput"),
    http("POST /questions/{request_id}:answer", handle!(Skills, questions::answer)),
    // Stored calls. A request for one may wait for its result.
    http("GET /operations", handle!(Skills, operations::list)).audit(Audit::Insight).limit(SharedLimit::Catalog),
    http("POST /operations/{id}:cancel", handle!(Skills, operations::post))
        .audit(Audit::Change)
        .limit(SharedLimit::Catalog),
    http("POST /operations/{id}:retry", Handler::Verb).audit(Audit::Change).limit(SharedLimit::Catalog),
    // An unknown verb, or an escaped one.
    http("POST /operations/{id}", Handler::Verb).limit(SharedLimit::Catalog),
    http("GET /operations/{id}", Handler::Skills(|method| on(method, operations::one).fallback(operations::other)))
        .audit(Audit::Insight)
        .limit(SharedLimit::Watchers),
    http("DELETE /operations/{id}", handle!(Skills, operations::remove))
        .audit(Audit::Change)
        .limit(SharedLimit::Catalog),
    http("GET /operations/{id}/events", handle!(Skills, operations::events))
        .streams(Streaming::Server)
        .limit(SharedLimit::Watchers),
    http("GET /operations/{id}/artifacts/{number}", handle!(Skills, artifacts::read_from_operation))
        .audit(Audit::Insight)
        .limit(SharedLimit::Catalog),
    // The catalog, and what remains of calls.
    grpc("/openskill.v1.SkillService/ListSkills").limit(SharedLimit::Catalog),
    grpc("/openskill.v1.SkillService/GetSkill").limit(SharedLimit::Catalog),
    grpc("/openskill.v1.SkillService/WatchSkills").streams(Streaming::Server).limit(SharedLimit::Watchers),
    grpc("/openskill.v1.SkillService/ExportTools").limit(SharedLimit::Catalog),
    grpc("/openskill.v1.SkillService/ReadArtifact").limit(SharedLimit::Catalog),
    http("GET /skills", handle!(Skills, catalog::list)).limit(SharedLimit::Catalog),
    // `/skills/echo` is read. `/skills/echo:invoke` is called.
    http("GET /skills/{id}", Handler::Skills(|method| on(method, catalog::one).fallback(catalog::other)))
        .limit(SharedLimit::Catalog),
    http("GET /tools", handle!(Skills, tools::list)).limit(SharedLimit::Catalog),
    http("GET /artifacts/{*handle}", handle!(Skills, artifacts::read)).limit(SharedLimit::Catalog),
    // Calls that outlive their requests.
    grpc("/openskill.v1.OperationService/Submit").limit(SharedLimit::Catalog),
    grpc("/openskill.v1.OperationService/RetryOperation").audit(Audit::Change).limit(SharedLimit::Catalog),
    grpc("/openskill.v1.OperationService/WatchOperation")
        .streams(Streaming::Server)
        .audit(Audit::Insight)
        .limit(SharedLimit::Watchers),
    grpc("/openskill.v1.OperationService/ReadArtifact")
        .streams(Streaming::Server)
        .audit(Audit::Insight)
        .limit(SharedLimit::Catalog),
    grpc("/google.longrunning.Operations/ListOperations").audit(Audit::Insight).limit(SharedLimit::Catalog),
    grpc("/google.longrunning.Operations/GetOperation").audit(Audit::Insight).limit(SharedLimit::Catalog),
    grpc("/google.longrunning.Operations/WaitOperation").audit(Audit::Insight).limit(SharedLimit::Watchers),
    grpc("/google.longrunning.Operations/CancelOperation").audit(Audit::Change).limit(SharedLimit::Catalog),
    grpc("/google.longrunning.Operations/DeleteOperation").audit(Audit::Change).limit(SharedLimit::Catalog),
    // The agent's operations.
    grpc("/openskill.v1.AgentService/Chat").streams(Streaming::Both).limit(SharedLimit::CallStreams),
    grpc("/openskill.v1.AgentService/WatchConversation").streams(Streaming::Server).limit(SharedLimit::Conversations),
    grpc("/openskill.v1.AgentService/ListConversations").limit(SharedLimit::Conversations),
    grpc("/openskill.v1.AgentService/GetConversation").limit(SharedLimit::Conversations),
    grpc("/openskill.v1.AgentService/DeleteConversation"),
    http("POST /agent/chat", handle!(Agent, agent::chat)),
    http("GET /agent/conversations", handle!(Agent, agent::list)).limit(SharedLimit::Conversations),
    http("GET /agent/conversations/{id}", handle!(Agent, agent::one)).limit(SharedLimit::Conversations),
    http("DELETE /agent/conversations/{id}", handle!(Agent, agent::remove)).limit(SharedLimit::Conversations),
    http("GET /agent/conversations/{id}/events", handle!(Agent, agent::events)).limit(SharedLimit::Conversations),
    // Running and recorded calls. Administrators also see those of other principals.
    grpc("/openskill.v1.TraceService/ListCalls").audit(Audit::Insight).limit(SharedLimit::Traces),
    grpc("/openskill.v1.TraceService/CancelCall").audit(Audit::Change),
    http("GET /calls", handle!(Traces, running_calls::list)).audit(Audit::Insight).limit(SharedLimit::Traces),
    http("DELETE /calls/{id}", handle!(Traces, running_calls::cancel)).audit(Audit::Change),
    grpc("/openskill.v1.TraceService/ListTraces").audit(Audit::Insight).limit(SharedLimit::Traces),
    grpc("/openskill.v1.TraceService/GetTrace").audit(Audit::Insight).limit(SharedLimit::Traces),
    grpc("/openskill.v1.TraceService/FollowTraces")
        .streams(Streaming::Server)
        .audit(Audit::Insight)
        .limit(SharedLimit::Traces),
    http("GET /traces", handle!(Traces, traces::list)).audit(Audit::Insight).limit(SharedLimit::Traces),
    http("GET /traces/{id}", handle!(Traces, traces::one)).audit(Audit::Insight).limit(SharedLimit::Traces),
    // Administration.
    grpc("/openskill.v1.AdminService/ListWorkers").for_administrators(Audit::Insight).limit(SharedLimit::Operations),
    grpc("/openskill.v1.AdminService/ListCircuits").for_administrators(Audit::Insight).limit(SharedLimit::Operations),
    grpc("/openskill.v1.AdminService/ResetCircuits").for_administrators(Audit::Change),
    grpc("/openskill.v1.AdminService/Drain").for_administrators(Audit::Change),
    grpc("/openskill.v1.AdminService/SetTraffic").for_administrators(Audit::Change),
    // Nonexistent methods.
    grpc("/openskill.v1.AdminService/{*method}").for_administrators(Audit::Insight),
    // Probes need no keys, and reveal only whether the process is ready.
    grpc("/grpc.health.v1.Health/Check").open(),
    grpc("/grpc.health.v1.Health/List").open(),
    grpc("/grpc.health.v1.Health/Watch").streams(Streaming::Server).open(),
    grpc("/grpc.health.v1.Health/{*method}").open(),
    http("GET /healthz", handle!(Probe, health::live)).open(),
    http("GET /readyz", handle!(GatewayProbe, health::ready)).open(),
    http("GET /readyz", handle!(AgentProbe, health::takes_requests)).open(),
    http("GET /metrics", handle!(Probe, health::metrics)).limit(SharedLimit::Operations),
    http("GET /version", handle!(Skills, health::version)).limit(SharedLimit::Pages),
    // Metadata and documentation. A client without a token learns here where to get one.
    http("GET /.well-known/oauth-protected-resource", handle!(Skills, mcp::metadata)).open(),
    http("GET /.well-known/oauth-protected-resource/mcp", handle!(Skills, mcp::metadata)).open(),
    http("GET /.well-known/oauth-protected-resource/mcp/{view}", handle!(Skills, mcp::metadata)).open(),
    grpc("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        .streams(Streaming::Both)
        .limit(SharedLimit::Watchers),
    grpc("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        .streams(Streaming::Both)
        .limit(SharedLimit::Watchers),
    http("GET /openapi.json", handle!(Skills, openapi_document)).limit(SharedLimit::Pages),
    http("GET /", handle!(Skills, docs::home)).limit(SharedLimit::Pages),
    http("GET /docs", handle!(Skills, docs::redirect)).limit(SharedLimit::Pages),
    http("GET /docs/", handle!(Skills, docs::index)).limit(SharedLimit::Pages),
    http("GET /docs/{*file}", handle!(Skills, docs::file)).limit(SharedLimit::Pages),
];

/// Finds the operation of a request. None if no operation has its path and method.
pub(crate) fn find(method: &Method, path: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().map(|row| &row.operation).find(|it| allows(it.method, method) && template::fits(it.path, path))
}

/// Whether an operation accepts a request's method. `HEAD` counts as `GET`.
fn allows(own: HttpMethod, method: &Method) -> bool {
    match own {
        HttpMethod::Get => matches!(*method, Method::GET | Method::HEAD),
        HttpMethod::Post => *method == Method::POST,
        HttpMethod::Delete => *method == Method::DELETE,
    }
}

/// Builds the routes of the public listener.
pub(crate) fn skills(shard: Shard) -> Router {
    router(|it| if let Handler::Skills(handle) = it { Some(handle) } else { None }).with_state(shard)
}

/// Builds the probes of a gateway.
pub(crate) fn gateway_probes(shard: Shard) -> Router {
    router(|it| if let Handler::Probe(handle) | Handler::GatewayProbe(handle) = it { Some(handle) } else { None })
        .with_state(shard)
}

/// Builds the probes of an agent without a gateway. `shard` belongs to a gateway without workers, which provides
/// limits.
pub(crate) fn agent_probes(shard: Shard) -> Router {
    router(|it| if let Handler::Probe(handle) | Handler::AgentProbe(handle) = it { Some(handle) } else { None })
        .with_state(shard)
}

/// Builds the routes for running and recorded calls.
pub(crate) fn traces(traces: Traces) -> Router {
    router(|it| if let Handler::Traces(handle) = it { Some(handle) } else { None }).with_state(traces)
}

/// Builds the routes of the agent.
pub(crate) fn agent(served: Served) -> Router {
    router(|it| if let Handler::Agent(handle) = it { Some(handle) } else { None }).with_state(served)
}

/// Builds the routes of the rows that `choose` accepts.
fn router<S: Clone + Send + Sync + 'static>(choose: impl Fn(Handler) -> Option<Handle<S>>) -> Router<S> {
    let chosen = OPERATIONS.iter().filter_map(|row| Some((row.operation, choose(row.handler)?)));
    chosen.fold(Router::new(), |router, (operation, handle)| {
        router.route(route(operation.path), handle(filter(operation.method)))
    })
}

/// Returns the path for the router, which does not support a verb behind a parameter.
fn route(path: &'static str) -> &'static str {
    path.find("}:").map_or(path, |end| &path[..=end])
}

fn filter(method: HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Delete => MethodFilter::DELETE,
    }
}

async fn openapi_document(State(shard): State<Shard>, request: Request) -> Response {
    openapi::document(&shard, &request, paths)
}

/// Builds the paths of `/openapi.json`, with or without the agent's.
pub(crate) fn paths(with_agent: bool) -> Map<String, Value> {
    let mut paths = Map::new();
    for row in OPERATIONS.iter().filter(|row| with_agent || !matches!(row.handler, Handler::Agent(_))) {
        let method = row.operation.name.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        let path = row.operation.path.replace("{*", "{");
        if let Some(described) = openapi::describe(&path, &method, row.operation.limit.is_some()) {
            paths.entry(path).or_insert_with(|| Map::new().into())[method] = described;
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use openskill_proto::DESCRIPTORS;
    use prost::Message as _;
    use prost_types::FileDescriptorSet;
    use tonic_reflection::pb::{v1, v1alpha};

    use super::*;

    /// Returns each gRPC method in the descriptors, and which of its sides stream.
    fn methods() -> BTreeMap<String, Streaming> {
        let sets =
            [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET, v1::FILE_DESCRIPTOR_SET, v1alpha::FILE_DESCRIPTOR_SET];
        let mut found = BTreeMap::new();
        for file in sets.iter().flat_map(|set| FileDescriptorSet::decode(*set).unwrap().file) {
            for service in &file.service {
                for method in &service.method {
                    let streaming = match (method.client_streaming(), method.server_streaming()) {
                        (false, false) => Streaming::Neither,
                        (false, true) => Streaming::Server,
                        (true, _) => Streaming::Both,
                    };
                    found.insert(format!("/{}.{}/{}", file.package(), service.name(), method.name()), streaming);
                }
            }
        }
        found
    }

    #[test]
    fn each_grpc_method_that_is_served_has_a_row_that_says_what_streams() {
        let mut methods = methods();
        methods.retain(|path, _| !path.starts_with("/openskill.v1.WorkerService/"));
        assert!(methods.len() > 25, "{methods:?}");
        for (path, streaming) in methods {
            let operation = OPERATIONS.iter().map(|row| &row.operation).find(|it| it.path == path);
            assert_eq!(operation.map(|it| it.streaming), Some(streaming), "{path}");
        }
    }

    #[test]
    fn each_row_is_found_by_its_own_paths() {
        for Row { operation, .. } in OPERATIONS {
            let path = operation.path.replace("{*", "{").replace(['{', '}'], "");
            let method = match operation.method {
                HttpMethod::Get => Method::GET,
                HttpMethod::Post => Method::POST,
                HttpMethod::Delete => Method::DELETE,
            };
            assert_eq!(find(&method, &path).map(|it| it.name), Some(operation.name));
        }
    }

    #[test]
    fn what_a_caller_writes_into_a_path_is_in_no_name() {
        for (path, name) in [
            ("/skills/s3cret:invoke", Some("POST /skills/{id}:invoke")),
            ("/skills/s3cret%3Ainvoke", Some("POST /skills/{id}:invoke")),
            ("/skills/s3cret:stream", Some("POST /skills/{id}:stream")),
            ("/mcp/s3cret", Some("POST /mcp/{view}")),
            ("/mcp/s3cret:invoke", Some("POST /mcp/{view}")),
            ("/skills/s3cret:inv%6Fke", Some("POST /skills/{id}")),
            ("/operations/s3cret:cancel", Some("POST /operations/{id}:cancel")),
            ("/operations/s3cret:c%61ncel", Some("POST /operations/{id}")),
            ("/skills/s3cret/x:stream", None),
            ("/s3cret", None),
        ] {
            assert_eq!(find(&Method::POST, path).map(|it| it.name), name, "{path}");
        }
    }

    #[test]
    fn probes_are_open_and_administration_is_told_from_what_only_sounds_like_it() {
        let access = |method, path| find(&method, path).map(|it| (it.access, it.audit));
        for path in ["/healthz", "/readyz", "/.well-known/oauth-protected-resource/mcp/a"] {
            assert_eq!(access(Method::GET, path), Some((Access::Open, None)), "{path}");
            assert_eq!(access(Method::HEAD, path), Some((Access::Open, None)), "{path}");
        }
        let open: Vec<_> = OPERATIONS.iter().filter(|row| row.operation.access == Access::Open).collect();
        assert_eq!(open.len(), 10);
        let admin = |audit| Some((Access::Administrator, Some(audit)));
        for (path, expected) in [
            ("/openskill.v1.AdminService/Drain", admin(Audit::Change)),
            ("/openskill.v1.AdminService/ListWorkers", admin(Audit::Insight)),
            ("/openskill.v1.AdminService/NoSuchMethod", admin(Audit::Insight)),
            ("/openskill.v1.AdminService/Drain/x", admin(Audit::Insight)),
            ("/openskill.v1.AdminServiceX/ListWorkers", None),
            ("/openskill.v1.TraceService/GetTrace", Some((Access::Principal, Some(Audit::Insight)))),
            ("/openskill.v1.SkillService/Invoke", Some((Access::Principal, None))),
            ("/grpc.health.v1.Healthy/Check", None),
            ("/healthz", None),
        ] {
            assert_eq!(access(Method::POST, path), expected, "{path}");
        }
    }

    #[test]
    fn calls_and_probes_count_towards_no_pool() {
        for Row { operation, .. } in OPERATIONS.iter().filter(|row| row.operation.limit.is_none()) {
            let is_probe = operation.access == Access::Open;
            let is_change = operation.audit == Some(Audit::Change) || operation.name.ends_with("DeleteConversation");
            let is_call = operation.method == HttpMethod::Post || operation.protocol == Protocol::Mcp;
            assert!(is_probe || is_change || is_call, "{}", operation.name);
        }
    }
}
