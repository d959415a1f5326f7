//! What only administrators may do.

use openskill_proto::v1::{
    DrainRequest, ListCircuitsRequest, ListWorkersRequest, ResetCircuitsRequest, SetTrafficRequest,
};
use openskill_tests::port::Port;
use openskill_tests::system::{Setup, System};
use tonic::Code;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::{Keys, from};

const ADMIN: &str = "openskill.v1.AdminService";

/// The answer of reflection. None if there is no such thing.
async fn reflect(system: &System, key: &str, wanted: MessageRequest) -> Option<MessageResponse> {
    let mut client = ServerReflectionClient::new(system.channel().await);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(wanted) };
    let answers = client.server_reflection_info(from(key, tokio_stream::iter([request]))).await.unwrap();
    answers.into_inner().message().await.ok()??.message_response
}

async fn services(system: &System, key: &str) -> Vec<String> {
    match reflect(system, key, MessageRequest::ListServices(String::new())).await.unwrap() {
        MessageResponse::ListServicesResponse(listed) => listed.service.into_iter().map(|it| it.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn administration_needs_an_administrator_and_leaves_a_line() {
    let keys = Keys::new();
    let caller = keys.create("caller", &["--skills", "*", "--destructive"]);
    let operator = keys.create("operator", &["--admin"]);
    let system = keys.up().start().await;
    let mut admin = system.admin().await;
    let codes = [
        admin.drain(from(&caller, DrainRequest::default())).await.map(drop),
        admin.reset_circuits(from(&caller, ResetCircuitsRequest::default())).await.map(drop),
        admin.set_traffic(from(&caller, SetTrafficRequest::default())).await.map(drop),
        admin.list_workers(from(&caller, ListWorkersRequest {})).await.map(drop),
        admin.list_circuits(from(&caller, ListCircuitsRequest::default())).await.map(drop),
    ]
    .map(|it| it.unwrap_err().code());
    assert_eq!(codes, [Code::PermissionDenied; 5]);
    let log = &system.process.log;
    log.line(&["openskill::audit", "decision=\"forbidden\"", "principal=\"caller\"", "AdminService/Drain"]).await;
    assert_eq!(admin.list_workers(from(&operator, ListWorkersRequest {})).await.unwrap().into_inner().workers.len(), 2);
    let looked = ["decision=\"inspected\"", "principal=\"operator\"", super::id(&operator), "AdminService/ListWorkers"];
    log.line(&looked).await;
    assert_eq!(super::get(&system, &operator, "/traces").await.status, 200);
    log.line(&["decision=\"inspected\"", "asked=\"/traces\""]).await;
    assert_eq!(super::get(&system, &caller, "/traces").await.status, 200, "its own");
    admin.drain(from(&operator, DrainRequest::default())).await.unwrap();
    log.line(&["decision=\"administered\"", "principal=\"operator\"", super::id(&operator), "AdminService/Drain"])
        .await;
    assert!(services(&system, &operator).await.iter().any(|it| it == ADMIN));
    assert!(!log.text().contains("decision=\"inspected\" principal=\"caller\""), "{}", log.text());
    let seen = services(&system, &caller).await;
    assert!(!seen.iter().any(|it| it == ADMIN) && seen.iter().any(|it| it == "openskill.v1.SkillService"), "{seen:?}");
    // What is not listed is not found by another name either.
    for wanted in [
        MessageRequest::FileContainingSymbol(ADMIN.to_owned()),
        MessageRequest::FileContainingSymbol(format!("{ADMIN}.Drain")),
        MessageRequest::FileContainingSymbol("openskill.v1.DrainRequest".to_owned()),
        MessageRequest::FileByFilename("openskill/v1/admin.proto".to_owned()),
    ] {
        let is_file =
            |answer: Option<MessageResponse>| matches!(answer, Some(MessageResponse::FileDescriptorResponse(_)));
        assert!(is_file(reflect(&system, &operator, wanted.clone()).await), "{wanted:?}");
        assert!(!is_file(reflect(&system, &caller, wanted.clone()).await), "{wanted:?}");
    }
    let mut anonymous = ServerReflectionClient::new(system.channel().await);
    let refused = anonymous.server_reflection_info(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn an_admin_listener_asks_for_keys_too() {
    let keys = Keys::new();
    let caller = keys.create("caller", &["--skills", "*"]);
    let operator = keys.create("operator", &["--admin"]);
    let port = Port::reserve();
    let address: std::net::SocketAddr = format!("127.0.0.1:{}", port.number()).parse().unwrap();
    let system = keys.up().flag("--admin-listen", address).start().await;
    let system = System { address, ..system };
    let mut admin = system.admin().await;
    for (key, code) in [(Some(&caller), Code::PermissionDenied), (None, Code::Unauthenticated)] {
        let request =
            key.map_or_else(|| tonic::Request::new(ListWorkersRequest {}), |it| from(it, ListWorkersRequest {}));
        assert_eq!(admin.list_workers(request).await.unwrap_err().code(), code);
    }
    assert!(admin.list_workers(from(&operator, ListWorkersRequest {})).await.is_ok());
}

/// An agent on a server of its own has one key for all its calls, and asks its users for theirs.
#[tokio::test]
async fn an_agent_elsewhere_shows_its_own_key_and_asks_its_users_for_theirs() {
    let keys = Keys::new();
    let agent = keys.create("agent", &["--skills", "echo"]);
    let user = keys.create("user", &["--skills", "*"]);
    let system = Setup::shipped().with("OPENSKILL_KEYS", keys.path().display()).start().await;
    let alone = Setup::command(&["agent", "--listen", "127.0.0.1:0", "--gateway", &system.url()])
        .with("OPENSKILL_KEYS", keys.path().display())
        .with("OPENSKILL_TOKEN", &agent)
        .spawn();
    let line = alone.log.line(&["agent listening", "address="]).await;
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    openskill_tests::wait::until("the agent is ready", openskill_tests::system::PATIENCE, || async {
        let answer = openskill_tests::rest::send(address, http::Method::GET, "/readyz", &[], "").await;
        (answer.status == 200).then_some(())
    })
    .await;
    let alone = System { address, process: alone };
    let chat = async |message: &str| {
        super::post(&alone, &user, "/agent/chat", &serde_json::json!({ "message": message }).to_string()).await.json()
    };
    let echoed = chat("echo: far away").await;
    assert!(echoed["events"].to_string().contains("\"success\":true"), "{echoed}");
    let task = chat("mean and max of 10.5, 9.9, 11.2").await;
    assert!(!task["events"].to_string().contains("\"skill_id\":\"calculator\""), "{task}");
    let refused = alone.post("/agent/chat", &[("content-type", "application/json")], "{}").await;
    assert_eq!(refused.status, 401);
    assert!(!alone.process.log.text().contains(&agent));
}

#[tokio::test]
async fn an_address_that_other_machines_reach_needs_keys_or_an_explicit_word() {
    let mut refused = Setup::command(&["up", "--listen", "0.0.0.0:0", "--skills-dir", "."]).spawn();
    assert_eq!(refused.ended().await.code(), Some(4));
    let log = refused.log.line(&["0.0.0.0:0"]).await;
    assert!(log.contains("OPENSKILL_KEYS") && log.contains("OPENSKILL_ANONYMOUS=allow"), "{log}");
    let keys = Keys::new();
    let skills = openskill_tests::fixtures().display().to_string();
    let open = || Setup::command(&["up", "--listen", "0.0.0.0:0", "--skills-dir", &skills]);
    let with_keys = open().with("OPENSKILL_KEYS", keys.path().display()).start().await;
    assert_eq!(with_keys.get("/skills").await.status, 401);
    let allowed = open().with("OPENSKILL_ANONYMOUS", "allow").start().await;
    assert_eq!(allowed.get("/skills").await.status, 200);
}

#[tokio::test]
async fn a_gateway_does_not_start_with_a_file_of_keys_that_it_cannot_trust() {
    let keys = Keys::new();
    keys.write("[principals.a]\nskils = []\n");
    let mut broken = keys.up().spawn();
    assert_eq!(broken.ended().await.code(), Some(4));
    broken.log.line(&["OPENSKILL_KEYS", "unknown field `skils`"]).await;
    keys.write("");
    std::fs::set_permissions(keys.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut readable = keys.up().spawn();
    assert_eq!(readable.ended().await.code(), Some(4));
    readable.log.line(&["OPENSKILL_KEYS", "644", "chmod 600"]).await;
}
