//! Artifacts: by value and as handles, over every face, from every kind of skill.

use hyper::Method;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::{
    Artifact, ExecuteRequest, FetchArtifactRequest, ReadArtifactRequest, SkillResult, invoke_event::Event,
};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System, code, data, request};
use openskill_tests::{fixtures, repository, rest};
use serde_json::json;

use crate::input_required::connect;

const MIB: usize = 1024 * 1024;

/// What the skill `draws` draws.
pub(crate) fn picture(bytes: usize) -> Vec<u8> {
    let counted = (0..=250).cycle();
    b"\x89PNG\r\n\x1a\n".iter().copied().chain(counted).take(bytes).collect()
}

async fn start() -> System {
    let shipped = repository().join("worker/skills");
    let system = Setup::with_skills(&[&fixtures(), &shipped]).flag("--workers", 1).start().await;
    system.has_skill("draws").await;
    system
}

fn only(result: &SkillResult) -> &Artifact {
    assert_eq!(code(result), "", "{result:?}");
    let [artifact] = &result.artifacts[..] else { panic!("{result:?}") };
    artifact
}

async fn read(system: &System, handle: &str, offset: u64, length: u64) -> Result<Vec<u8>, tonic::Status> {
    let range = ReadArtifactRequest { handle: handle.to_owned(), offset, length };
    system.skills().await.read_artifact(range).await.map(|it| it.into_inner().data.to_vec())
}

/// The content, wherever it is.
async fn content(system: &System, artifact: &Artifact) -> Vec<u8> {
    let handle = match artifact.content.as_ref().unwrap() {
        Content::Data(data) => return data.to_vec(),
        Content::Handle(handle) => handle,
    };
    let mut content = Vec::new();
    loop {
        let part = read(system, handle, content.len() as u64, 0).await.unwrap();
        if part.is_empty() {
            return content;
        }
        content.extend(part);
    }
}

#[tokio::test]
async fn a_picture_arrives_byte_for_byte_by_value_and_as_a_handle() {
    let system = start().await;
    for (skill, bytes, is_inline) in [
        ("draws", 10, true),
        ("draws", 256 * 1024, true),
        ("draws", 256 * 1024 + 1, false),
        ("draws", 3 * MIB, false),
        ("draws_shared", 300_000, false),
    ] {
        let result = system.invoke(request(skill, json!({"bytes": bytes}))).await;
        let artifact = only(&result);
        assert_eq!(data(&result), json!({"bytes": bytes}));
        assert_eq!((artifact.name.as_str(), artifact.media_type.as_str()), ("plot.png", "image/png"));
        assert_eq!(artifact.size_bytes, bytes as u64);
        assert_eq!(matches!(artifact.content, Some(Content::Data(_))), is_inline, "{bytes}");
        assert!(content(&system, artifact).await == picture(bytes), "{skill}: {bytes} bytes differ");
    }
}

#[tokio::test]
async fn a_handle_is_read_in_ranges() {
    let system = start().await;
    let result = system.invoke(request("draws", json!({"bytes": 2 * MIB}))).await;
    let Some(Content::Handle(handle)) = &only(&result).content else { panic!("{result:?}") };
    let whole = picture(2 * MIB);
    assert_eq!(read(&system, handle, 5, 3).await.unwrap(), whole[5..8]);
    assert!(read(&system, handle, MIB as u64, u64::MAX).await.unwrap() == whole[MIB..]);
    assert_eq!(read(&system, handle, 3 * MIB as u64, 0).await.unwrap(), b"");
    let unknown = read(&system, &format!("{handle}0"), 0, 0).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn an_artifact_is_an_event_and_part_of_the_result() {
    let system = start().await;
    let call = request("draws", json!({"bytes": 1000}));
    let mut events = system.skills().await.invoke_stream(call).await.unwrap().into_inner();
    let (mut announced, mut result) = (Vec::new(), None);
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            Event::Artifact(artifact) => announced.push(artifact),
            Event::Result(it) => result = Some(it),
            _ => {}
        }
    }
    assert_eq!(announced, result.unwrap().artifacts);
    assert_eq!(announced.len(), 1);
}

#[tokio::test]
async fn a_picture_arrives_over_rest() {
    let system = start().await;
    let body = system.call("draws", json!({"bytes": 1000})).await.json();
    let artifact = &body["artifacts"][0];
    assert_eq!((&artifact["name"], &artifact["size_bytes"]), (&json!("plot.png"), &json!(1000)));
    assert_eq!(decoded(artifact["data"].as_str().unwrap()), picture(1000));
    let body = system.call("draws", json!({"bytes": 2 * MIB})).await.json();
    let handle = body["artifacts"][0]["handle"].as_str().unwrap().to_owned();
    let whole = system.get(&format!("/artifacts/{handle}")).await;
    assert_eq!((whole.status, whole.header("content-type")), (200, "image/png"));
    assert!(whole.body == picture(2 * MIB));
    let range = async |range: &str| {
        let path = format!("/artifacts/{handle}");
        rest::send(system.address, Method::GET, &path, &[("range", range)], "").await
    };
    let part = range("bytes=1-4").await;
    assert_eq!((part.status, part.header("content-range")), (206, "bytes 1-4/2097152"));
    assert!(part.body[..] == picture(5)[1..]);
    let last = range("bytes=-3").await;
    assert!(last.status == 206 && last.body[..] == picture(2 * MIB)[2 * MIB - 3..]);
    let outside = range("bytes=2097152-").await;
    assert_eq!((outside.status, outside.header("content-range")), (416, "bytes */2097152"));
    assert_eq!(system.get("/artifacts/%FF").await.json()["error"]["code"], "NOT_FOUND");
}

#[tokio::test]
async fn an_artifact_over_the_bound_is_a_warning_and_no_error() {
    let system = start().await;
    let result = system.invoke(request("in_artifact", json!({"name": "a.bin", "bytes": 11 * MIB}))).await;
    assert_eq!(code(&result), "");
    assert!(result.artifacts.is_empty());
    let warnings = result.meta.unwrap().warnings;
    assert!(warnings[0].contains("'a.bin' was dropped: it is larger"), "{warnings:?}");
}

#[tokio::test]
async fn a_printed_result_and_an_http_answer_may_list_artifacts() {
    let answer = json!({"success": true, "data": 1, "artifacts": [{"name": "a.txt", "data": "aGVsbG8="}]});
    let server = Backend::start(move |_| Reply::json(200, &answer)).await;
    let folder = Folder::new();
    let (url, host) = (server.url("/"), server.address);
    folder.write("web.yaml", format!("id: web\ntype: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n"));
    let system = Setup::with_skills(&[&fixtures(), folder.path()]).flag("--workers", 1).start().await;
    for skill in ["lists_artifacts", "web"] {
        system.has_skill(skill).await;
        let result = system.invoke(request(skill, json!({}))).await;
        let artifact = only(&result);
        assert_eq!((artifact.name.as_str(), data(&result)), ("a.txt", json!(1)), "{skill}");
        assert_eq!(content(&system, artifact).await, b"hello", "{skill}");
    }
}

#[tokio::test]
async fn the_media_of_an_mcp_result_are_artifacts_and_stay_in_the_data() {
    let servers = fixtures().with_file_name("mcp");
    let system = Setup::with_skills(&[&servers]).flag("--workers", 1).start().await;
    system.has_skill("own__blocks").await;
    let result = system.invoke(request("own__blocks", json!({}))).await;
    let artifact = result.artifacts.iter().find(|it| it.media_type == "image/png").unwrap();
    assert_eq!((artifact.name.as_str(), content(&system, artifact).await), ("image.png", vec![0, 0, 0]));
    assert_eq!(data(&result)["content"][1]["type"], "image");
}

#[tokio::test]
async fn a_worker_gives_an_artifact_to_the_calls_principal_alone() {
    let folder = Folder::new();
    let listen = format!("unix:{}", folder.path().join("worker.sock").display());
    let skills = fixtures().display().to_string();
    let worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills]).spawn();
    worker.log.line(&["worker ready"]).await;
    let mut client = connect(&listen).await;
    let call = ExecuteRequest {
        skill_id: "in_artifact".to_owned(),
        input_json: format!(r#"{{"name": "a.bin", "bytes": {MIB}}}"#).into(),
        timeout_ms: 20_000,
        principal: "ada".to_owned(),
        ..ExecuteRequest::default()
    };
    let result = client.execute(call).await.unwrap().into_inner();
    let Some(Content::Handle(handle)) = result.artifacts[0].content.clone() else { panic!("{result:?}") };
    for (principal, expected) in [("eve", None), ("", None), ("ada", Some(MIB as u64))] {
        let range = Some(ReadArtifactRequest { handle: handle.clone(), offset: 0, length: 1 });
        let fetched = client.fetch_artifact(FetchArtifactRequest { range, principal: principal.to_owned() }).await;
        assert_eq!(fetched.ok().map(|it| it.into_inner().size_bytes), expected, "{principal}");
    }
}

/// Base64, decoded by the standard library of another language: the test trusts no code of ours.
fn decoded(base64: &str) -> Vec<u8> {
    let program = "import base64, sys; sys.stdout.buffer.write(base64.b64decode(sys.argv[1]))";
    std::process::Command::new("python3").args(["-c", program, base64]).output().unwrap().stdout
}
