//! What agents must know of skills: approval, repeatable, untrusted and read-only, from the manifest to the client.

use openskill_proto::v1::{Approval, ListSkillsRequest};
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::until;
use serde_json::{Value, json};

/// `approval`, `repeatable`, `untrusted` and `read_only`, over REST.
async fn conduct(system: &System, skill: &str) -> Value {
    let skill = system.get(&format!("/skills/{skill}")).await.json();
    json!([skill["approval"], skill["repeatable"], skill["untrusted"], skill["read_only"]])
}

#[tokio::test]
async fn shipped_skills_that_only_read_say_so() {
    let system = Setup::shipped().start().await;
    for skill in ["ask_user", "calculator", "echo", "file_search"] {
        assert_eq!(conduct(&system, skill).await, json!(["never", false, false, true]), "{skill}");
    }
    // It may write a file.
    assert_eq!(conduct(&system, "log_transform").await, json!(["never", false, false, false]));
}

#[tokio::test]
async fn what_a_manifest_says_or_its_runner_implies_reaches_clients() {
    let folder = Folder::new();
    let manifest = |id: &str, more: &str| {
        folder.write(&format!("{id}.py"), "print('{}')");
        folder.write(&format!("{id}.yaml"), format!("id: {id}\ntype: cli\nruntime: python\nentry: {id}.py\n{more}"));
    };
    manifest("plain", "");
    manifest("wipes", "destructive: true\n");
    manifest("asks_first", "approval: ask\nrepeatable: true\nuntrusted: true\n");
    manifest("trusted", "destructive: true\napproval: never\n");
    manifest("torn", "destructive: true\nread_only: true\n");
    folder.write("web.yaml", "id: web\ntype: http\nentry: https://example.com/\n");
    let system = Setup::with_skills(&[folder.path()]).start().await;
    for (skill, expected) in [
        ("plain", json!(["never", false, false, false])),
        ("wipes", json!(["ask", false, false, false])),
        ("asks_first", json!(["ask", true, true, false])),
        ("trusted", json!(["never", false, false, false])),
        ("web", json!(["never", false, true, false])),
    ] {
        system.has_skill(skill).await;
        assert_eq!(conduct(&system, skill).await, expected, "{skill}");
    }
    let log = system.process.log.line(&["torn.yaml", "cannot be both read_only and destructive"]).await;
    assert!(log.contains("remove one of them"), "{log}");
    let listed = system.skills().await.list_skills(ListSkillsRequest::default()).await.unwrap().into_inner().skills;
    let wipes = listed.iter().find(|it| it.id == "wipes").unwrap();
    assert_eq!((wipes.approval(), wipes.destructive), (Approval::Ask, true));
    manifest("plain", "approval: ask\n");
    until("the manifest is read again", PATIENCE, || async {
        (conduct(&system, "plain").await[0] == "ask").then_some(())
    })
    .await;
}
