//! Calls over gRPC and REST, and their answers.

use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{
    ChangeKind, Envelope, GetSkillRequest, InvokeRequest, ListSkillsRequest, WatchSkillsRequest, invoke_event::Event,
    skill_result,
};
use openskill_tests::system::{Setup, code, data, request};
use serde_json::{Value, json};
use tonic_health::pb::health_client::HealthClient;

#[tokio::test]
async fn rest_serves_the_call_of_the_original_design() {
    let system = Setup::shipped().start().await;
    // As curl sends it, with curl's default content type.
    let headers = [("x-trace-id", "demo-123"), ("content-type", "application/x-www-form-urlencoded")];
    let answer = system.post("/skills/echo:invoke", &headers, r#"{"input":{"text":"hello"}}"#).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-trace-id"), "demo-123");
    let body = answer.json();
    assert_eq!(body["success"], true);
    assert_eq!(body["skill_id"], "echo");
    assert_eq!(body["trace_id"], "demo-123");
    assert_eq!(body["data"], json!({"echoed": "hello"}));
    assert_eq!(body["error"], Value::Null);
    assert!(body["meta"]["latency_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(body["meta"]["version"], "0.1.0");
}

#[tokio::test]
async fn json_text_round_trips_byte_for_byte() {
    let system = Setup::up().start().await;
    let text = "{ \"n\" : 12345678901234567890123, \"x\":1.50 }";
    let result = system
        .invoke(InvokeRequest {
            skill_id: "in_echo".to_owned(),
            arguments: Some(Arguments::InputJson(text.to_owned())),
            ..InvokeRequest::default()
        })
        .await;
    assert_eq!(result.output, Some(skill_result::Output::DataJson(text.to_owned())));
    let result = system.invoke(request("gives_bare_value", json!({}))).await;
    assert_eq!(result.output, Some(skill_result::Output::DataJson(r#"{"big": 12345678901234567890123}"#.to_owned())));
}

#[tokio::test]
async fn a_struct_gets_a_value_whose_whole_numbers_are_integers() {
    use openskill_proto::v1::SkillResult;
    let system = Setup::up().start().await;
    // {"limit": 5} as a Struct, which has only doubles.
    let five = prost_struct("limit", 5.0);
    let request =
        InvokeRequest { skill_id: "reveals".to_owned(), arguments: Some(Arguments::Input(five)), ..Default::default() };
    let result: SkillResult = system.invoke(request).await;
    let Some(skill_result::Output::Data(value)) = result.output else { panic!("no value: {result:?}") };
    let shown = format!("{value:?}");
    assert!(shown.contains("limit") && shown.contains("NumberValue(5.0)"), "{shown}");
}

fn prost_struct(key: &str, number: f64) -> prost_types::Struct {
    let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(number)) };
    prost_types::Struct { fields: [(key.to_owned(), value)].into() }
}

#[tokio::test]
async fn data_that_no_value_can_hold_is_a_failure() {
    let system = Setup::up().start().await;
    let as_struct = |skill: &str| InvokeRequest {
        skill_id: skill.to_owned(),
        arguments: Some(Arguments::Input(prost_types::Struct::default())),
        ..InvokeRequest::default()
    };
    assert_eq!(code(&system.invoke(as_struct("half_a_character")).await), "EXECUTION_ERROR");
    assert_eq!(code(&system.invoke(as_struct("many_numbers")).await), "OUTPUT_TOO_LARGE");
    for skill in ["half_a_character", "many_numbers"] {
        assert!(system.invoke(request(skill, json!({}))).await.success, "{skill} as text");
    }
}

#[tokio::test]
async fn a_stream_starts_with_accepted_and_ends_with_exactly_one_result() {
    let system = Setup::up().start().await;
    let request = InvokeRequest { call_id: "mine".to_owned(), ..request("reports_progress", json!({})) };
    let mut events = system.skills().await.invoke_stream(request).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        assert_eq!(event.call_id, "mine");
        seen.push(event.event.unwrap());
    }
    assert!(matches!(seen.first(), Some(Event::Accepted(_))), "{seen:?}");
    assert!(
        seen.iter().any(|event| matches!(event, Event::Progress(it) if it.fraction == 0.5 && it.message == "half"))
    );
    assert!(seen.iter().any(|event| matches!(event, Event::Log(it) if it.level == "warning")));
    assert!(seen.iter().any(|event| matches!(event, Event::Partial(it) if it.data_json == "{\"first\": 1}")));
    let results = seen.iter().filter_map(|event| match event {
        Event::Result(result) => Some(result),
        _ => None,
    });
    let [result] = results.collect::<Vec<_>>()[..] else { panic!("not one result: {seen:?}") };
    assert!(matches!(seen.last(), Some(Event::Result(_))));
    assert_eq!(data(result), json!({"first": 1, "second": 2}));
    assert_eq!(result.text, "all there");
    assert!(result.meta.as_ref().unwrap().warnings[0].starts_with("2 events"), "{result:?}");
}

#[tokio::test]
async fn server_sent_events_carry_the_same_events() {
    let system = Setup::up().start().await;
    let answer = system.post("/skills/reports_progress:stream", &[], "{}").await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["accepted", "progress", "log", "partial", "result"]);
    assert!(text.contains(r#""data":{"first": 1, "second": 2}"#), "{text}");
}

#[tokio::test]
async fn the_status_envelope_renders_the_same_result() {
    let system = Setup::up().start().await;
    let body = r#"{"input": {"n": 1}, "envelope": "status"}"#;
    let answer = system.post("/skills/in_echo:invoke", &[], body).await.json();
    assert_eq!((&answer["status"], &answer["data"]), (&json!("success"), &json!({"n": 1})));
    assert_eq!(answer["context"]["params_input"], json!({"n": 1}));
    assert!(answer.get("error").is_none());
    let request = InvokeRequest { envelope: Envelope::Status.into(), ..request("refuses", json!({})) };
    let result = system.invoke(request).await;
    let rendered: Value = serde_json::from_str(&result.rendered_json).unwrap();
    assert_eq!((&rendered["status"], &rendered["error"]["type"]), (&json!("error"), &json!("param_error")));
}

#[tokio::test]
async fn a_failing_skill_is_a_result_over_grpc_and_a_mapped_status_over_rest() {
    let system = Setup::up().start().await;
    let result = system.invoke(request("refuses", json!({}))).await;
    assert_eq!((result.success, code(&result)), (false, "INVALID_ARGUMENT"));
    assert!(result.output.is_none());
    let answer = system.call("refuses", json!({})).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_ARGUMENT"));
    assert_eq!(answer.json()["error"]["details"], json!({"field": "n"}));
    assert_eq!(answer.json()["data"], Value::Null);
}

#[tokio::test]
async fn the_callers_deadline_applies_in_every_form() {
    let system = Setup::up().start().await;
    for (headers, body) in [
        (vec![("x-timeout-ms", "300")], json!({"input": {"seconds": 30}})),
        (vec![("grpc-timeout", "300m")], json!({"input": {"seconds": 30}})),
        (vec![], json!({"input": {"seconds": 30}, "timeout_ms": 300})),
    ] {
        let begun = std::time::Instant::now();
        let answer = system.post("/skills/naps:invoke", &headers, body.to_string()).await;
        assert_eq!((answer.status, answer.code().as_str()), (504, "TIMEOUT"), "{headers:?}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{headers:?}");
    }
    // A malformed deadline is ignored, so the default applies.
    let answer = system.post("/skills/naps:invoke", &[("x-timeout-ms", "soon")], r#"{"input":{"seconds":0.4}}"#).await;
    assert_eq!(answer.status, 200);
    // So is one of zero, which gRPC does not have.
    let answer = system.post("/skills/in_wait:invoke", &[("grpc-timeout", "0m")], r#"{"input":{"ms":200}}"#).await;
    assert_eq!(answer.status, 200);
    let answer = system.call("short_deadline", json!({})).await;
    assert_eq!(answer.code(), "TIMEOUT");
}

#[tokio::test]
async fn the_catalog_supports_list_get_and_watch() {
    let system = Setup::shipped().start().await;
    let mut client = system.skills().await;
    let all = client.list_skills(ListSkillsRequest::default()).await.unwrap().into_inner().skills;
    let core = ListSkillsRequest { toolset: "core".to_owned() };
    let skills = client.list_skills(core).await.unwrap().into_inner().skills;
    let ids: Vec<_> = skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(ids, ["ask_user", "calculator", "echo", "file_search", "log_transform"]);
    assert!(skills.iter().all(|skill| skill.workers == 2));
    let skill = client.get_skill(GetSkillRequest { skill_id: "echo".to_owned() }).await.unwrap().into_inner();
    let schema: Value = serde_json::from_str(&skill.input_schema_json).unwrap();
    assert_eq!(schema["required"], json!(["text"]));
    let status = client.get_skill(GetSkillRequest { skill_id: "nope".to_owned() }).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
    assert!(!status.details().is_empty(), "google.rpc details");
    let none = ListSkillsRequest { toolset: "no such".to_owned() };
    assert!(client.list_skills(none).await.unwrap().into_inner().skills.is_empty());

    let mut watch = client.watch_skills(WatchSkillsRequest::default()).await.unwrap().into_inner();
    for (index, skill) in all.iter().enumerate() {
        let change = watch.message().await.unwrap().unwrap();
        assert_eq!((change.kind(), change.skill.unwrap().id), (ChangeKind::Added, skill.id.clone()));
        assert_eq!(change.snapshot_complete, index + 1 == all.len());
    }
    let list = system.get("/skills").await.json();
    assert_eq!(list["skills"].as_array().unwrap().len(), 46);
    assert_eq!(system.get("/skills/echo").await.json()["input_schema"], schema);
    assert_eq!(system.get("/skills/nope").await.status, 404);
}

#[tokio::test]
async fn health_and_readiness_report_whether_calls_are_served() {
    let system = Setup::shipped().start().await;
    let mut health = HealthClient::new(system.channel().await);
    for service in ["", "openskill.v1.SkillService", "openskill.v1.AgentService"] {
        let request = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status, 1, "{service:?} is SERVING");
    }
    assert_eq!(system.get("/healthz").await.status, 200);
    assert_eq!(system.get("/readyz").await.json()["workers"], json!({"up": 2, "known": 2}));
}

#[tokio::test]
async fn unknown_names_do_not_end_streams_of_reflection_and_health() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest as Asked;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse as Answer;
    let system = Setup::up().start().await;
    let asked = [
        Asked::FileContainingSymbol("no.Such".to_owned()),
        Asked::FileByFilename("none.proto".to_owned()),
        Asked::ListServices(String::new()),
    ];
    let requests = asked
        .map(|it| tonic_reflection::pb::v1::ServerReflectionRequest { host: String::new(), message_request: Some(it) });
    let mut client = ServerReflectionClient::new(system.channel().await);
    let mut answers = client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
    for _ in 0..2 {
        let Answer::ErrorResponse(error) = next().await else { panic!("no error") };
        assert_eq!(error.error_code, tonic::Code::NotFound as i32, "{error:?}");
    }
    let Answer::ListServicesResponse(list) = next().await else { panic!("no list") };
    let mut health = HealthClient::new(system.channel().await);
    for service in list.service {
        let request = tonic_health::pb::HealthCheckRequest { service: service.name.clone() };
        assert_eq!(health.check(request).await.unwrap().into_inner().status, 1, "{}", service.name);
    }
    let request = tonic_health::pb::HealthCheckRequest { service: "no.Such".to_owned() };
    let mut watched = health.watch(request.clone()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status, 3, "SERVICE_UNKNOWN");
    assert_eq!(health.check(request).await.unwrap_err().code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn reflection_lists_exactly_the_services_that_are_served() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let system = Setup::shipped().start().await;
    let request = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(system.channel().await);
    let stream = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap();
    let answer = stream.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
    let mut names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "google.longrunning.Operations",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "openskill.v1.AdminService",
            "openskill.v1.AgentService",
            "openskill.v1.OperationService",
            "openskill.v1.SkillService",
            "openskill.v1.TraceService"
        ]
    );
}

#[tokio::test]
async fn swagger_ui_needs_nothing_but_the_binary() {
    let system = Setup::shipped().start().await;
    let page = system.get("/docs/").await;
    let html = String::from_utf8_lossy(&page.body).into_owned();
    assert!(html.contains("swagger-ui"), "{html}");
    assert!(!html.contains("//cdn") && !html.contains("https://unpkg"), "{html}");
    for file in ["swagger-ui-bundle.js", "swagger-ui.css", "swagger-initializer.js"] {
        let answer = system.get(&format!("/docs/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(!answer.body.is_empty());
    }
    let document = system.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    // Swagger UI warns in red of any but the default.
    assert_eq!(document.get("jsonSchemaDialect"), None);
    let call = &document["paths"]["/skills/calculator:invoke"]["post"];
    let input = &call["requestBody"]["content"]["application/json"]["schema"]["properties"]["input"];
    assert_eq!(input["$ref"], "#/components/schemas/calculator.input");
    assert_eq!(document["components"]["schemas"]["calculator.input"]["type"], "object");
}
