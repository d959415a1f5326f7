//! Python files whose functions are skills.

use std::path::PathBuf;

use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use openskill_tests::{binary, repository};
use serde_json::{Value, json};

use crate::mcp_face::{ask, messages};

const FILE: &str = r#"
import enum
from dataclasses import dataclass

from openskill_sdk import Context, skill

print("a file's own output is not a result")


class Unit(enum.Enum):
    METRES = "m"
    FEET = "ft"


@dataclass
class Point:
    x: float
    y: float = 0.0
    unit: Unit = Unit.METRES


@skill(read_only=True)
async def shout(text: str, times: int = 1) -> dict:
    """Return the text in capitals.

    Args:
        text: what to shout
    """
    return {"text": text.upper() * times}


@skill(isolation="process")
def mirror(point: Point, unit: Unit | None = None) -> Point:
    """Mirror a point."""
    return Point(-point.x, -point.y, unit or point.unit)


@skill(id="count_up", isolation="shared", toolset="counting")
def count(to: int, context: Context) -> list[int]:
    """Count."""
    for number in range(to):
        context.progress((number + 1) / to, f"{number + 1} of {to}")
    return list(range(1, to + 1))


if __name__ == "__main__":
    raise SystemExit("a file with functions is not run as a program")
"#;

fn library() -> PathBuf {
    repository().join("worker/skills")
}

async fn start(folder: &Folder) -> System {
    let system = Setup::with_skills(&[&folder.path().join("skills"), &library()]).start().await;
    system.has_skill("shout").await;
    system
}

/// A tool, as MCP clients see it.
async fn tool(system: &System, name: &str) -> Value {
    let listed = ask(system, "tools/list", json!({})).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    tools.into_iter().find(|it| it["name"] == name).unwrap()
}

#[tokio::test]
async fn functions_of_a_python_file_answer_with_their_types() {
    let folder = Folder::new();
    folder.write("skills/texts.py", FILE);
    let system = start(&folder).await;

    let shout = system.get("/skills/shout").await.json();
    assert_eq!((&shout["toolset"], &shout["read_only"]), (&json!("texts"), &json!(true)), "{shout}");
    assert_eq!(data(&system.invoke(request("shout", json!({"text": "a", "times": 2}))).await), json!({"text": "AA"}));
    let properties = json!({
        "text": {"type": "string", "description": "what to shout"},
        "times": {"type": "integer", "default": 1},
    });
    let listed = tool(&system, "shout").await;
    assert_eq!(
        (&listed["inputSchema"]["properties"], &listed["inputSchema"]["required"]),
        (&properties, &json!(["text"]))
    );
    assert_eq!(listed["description"], "Return the text in capitals.");

    let mirrored =
        ask(&system, "tools/call", json!({"name": "mirror", "arguments": {"point": {"x": 1, "y": 2, "unit": "ft"}}}))
            .await;
    let mirrored = mirrored.json()["result"]["structuredContent"].clone();
    assert_eq!(mirrored, json!({"x": -1.0, "y": -2.0, "unit": "ft"}), "{mirrored}");
    let wrong = system.invoke(request("mirror", json!({"point": {"x": 1, "z": 2}, "unit": "yd"}))).await;
    assert_eq!(code(&wrong), "INVALID_ARGUMENT");

    let params = json!({"name": "count_up", "arguments": {"to": 3}, "_meta": {"progressToken": "p"}});
    let said = messages(&ask(&system, "tools/call", params).await);
    let reports = said.iter().filter(|it| it["method"] == "notifications/progress").count();
    assert_eq!(reports, 3, "{said:?}");
    assert_eq!(data(&system.invoke(request("count_up", json!({"to": 2}))).await), json!([1, 2]));
    assert_eq!(system.get("/skills/count_up").await.json()["toolset"], "counting");
}

#[tokio::test]
async fn an_older_sdk_in_the_folder_of_a_file_hides_no_newer_one() {
    let folder = Folder::new();
    for place in ["skills", "old"] {
        folder.write(&format!("{place}/openskill_sdk/__init__.py"), "def run(handler): pass\n");
    }
    folder.write("skills/texts.py", FILE);
    folder.write("skills/more.py", "from openskill_sdk import skill\n\n\n@skill\ndef more(): pass\n");
    let env = json!({"PYTHONPATH": folder.path().join("old")});
    let keys = "id: more\ntype: cli\nruntime: python\nentry: more.py\npython: {function: more}\njail: off\n";
    folder.write("skills/more.yaml", format!("{keys}env: {env}\n"));
    let system = Setup::with_skills(&[&folder.path().join("skills")]).start().await;
    system.has_skill("shout").await;
    for (skill, input) in
        [("shout", json!({"text": "a"})), ("mirror", json!({"point": {"x": 1}})), ("count_up", json!({"to": 1}))]
    {
        let result = system.invoke(request(skill, input)).await;
        assert!(result.success, "{skill}: {result:?}");
    }
    // The manifest puts it first.
    let error = system.invoke(request("more", json!({}))).await.error.unwrap();
    assert!(error.message.contains("is too old to call functions"), "{error:?}");
}

#[tokio::test]
async fn functions_in_the_folder_of_a_toolset_are_its_members() {
    let folder = Folder::new();
    folder.write("skills/set/toolset.yaml", "toolset: pair\n");
    folder.write("skills/set/texts.py", FILE.replace(", toolset=\"counting\"", ""));
    folder.write("skills/set/plain.py", "print('{}')\n");
    let system = start(&folder).await;
    for skill in ["shout", "mirror", "count_up"] {
        assert_eq!(system.get(&format!("/skills/{skill}")).await.json()["toolset"], "pair", "{skill}");
    }
    assert_eq!(data(&system.invoke(request("shout", json!({"text": "a"}))).await), json!({"text": "A"}));
    assert_eq!(system.get("/skills/plain").await.status, 404, "a script needs a manifest");
    folder.write("skills/set/texts.py", FILE.replace("async def shout", "async def cry"));
    system.has_skill("cry").await;
    folder.write("skills/set/toolset.yaml", "toolset: pair\nunavailable: being rebuilt\n");
    until("the toolset switches it off", PATIENCE, || async {
        (system.get("/skills/cry").await.json()["status"] == "unavailable").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_change_of_a_signature_takes_effect_and_a_mistake_is_reported_with_its_line() {
    let folder = Folder::new();
    folder.write("skills/texts.py", FILE);
    let system = start(&folder).await;
    let asked = FILE.replace("times: int = 1) -> dict", "times: int = 1, mark: str = '!') -> dict");
    folder.write("skills/texts.py", asked.replace("text.upper() * times", "text.upper() * times + mark"));
    until("the new parameter is known", PATIENCE, || async {
        let marked = system.invoke(request("shout", json!({"text": "a", "mark": "?"}))).await;
        (marked.success && data(&marked) == json!({"text": "A?"})).then_some(())
    })
    .await;

    let broken = asked.replace("unit: Unit | None = None", "*rest");
    let line = broken.lines().position(|it| it.contains("*rest")).unwrap() + 1;
    folder.write("skills/texts.py", &broken);
    let logged = system.process.log.line(&["invalid manifest", "texts.py", "*rest"]).await;
    assert!(logged.contains(&format!("line={line} ")), "{line}: {logged}");
    let refused = format!("skills/texts.py:{line}: ");
    until("clients hear of it", PATIENCE, || async {
        let mut skills = tokio::process::Command::new(binary());
        let listed = skills.args(["skills", "--all", "--url", &system.url()]).output().await.unwrap();
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        (said.contains("refused: ") && said.contains(&refused)).then_some(())
    })
    .await;
    let shouted = system.invoke(request("shout", json!({"text": "a"}))).await;
    assert!(shouted.success, "the other functions are served: {}", code(&shouted));

    folder.write("skills/texts.py", "import openskill_sdk\nprint('{\"plain\": true}')\n");
    until("the file is a plain script", PATIENCE, || async {
        let plain = system.invoke(request("texts", json!({}))).await;
        (plain.success && code(&system.invoke(request("shout", json!({"text": "a"}))).await) == "NOT_FOUND")
            .then_some(())
    })
    .await;
}

#[test]
fn the_manifest_that_a_function_means_is_shown_and_is_one() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    folder.write("skills/texts.py", FILE);
    let run = |arguments: &[&str]| {
        let skills = format!("skills:{}", library().display());
        let mut command = std::process::Command::new(binary());
        let output =
            command.args(arguments).args(["--skills-dir", &skills]).current_dir(folder.path()).output().unwrap();
        (
            output.status.code(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let (status, text) = run(&["manifest", "show", "skills/texts.py"]);
    assert_eq!(status, Some(0), "{text}");
    let documents: Vec<_> = text.split("---\n").skip(1).collect();
    assert_eq!(documents.len(), 3, "{text}");
    folder.write("skills/mirror.yaml", documents[1]);
    let (status, text) = run(&["check", "mirror"]);
    assert!(status == Some(0) && text.contains("ok    manifest"), "{text}");
    folder.write("skills/bad.py", "from openskill_sdk import skill\n@skill\ndef f(*a): pass\n");
    let (status, text) = run(&["manifest", "show", "skills/bad.py"]);
    assert!(status == Some(1) && text.contains("bad.py:3: f: *a"), "{text}");
    let (status, text) = run(&["check", "f"]);
    assert!(status == Some(1) && text.contains("bad.py:3: f: *a"), "{text}");
    let (status, text) = run(&["check", "mirror"]);
    assert!(status == Some(0) && !text.contains("bad.py"), "{text}");
}
