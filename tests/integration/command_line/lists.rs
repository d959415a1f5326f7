//! The formats of lists, and `describe`.

use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::terminal::Terminal;
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::process::Command;

use super::at;

/// Longer than a terminal is wide.
const LONG: &str =
    "Does something that takes very many words to describe, more than fit into a line of eighty columns.";

const LONG_NAME: &str = "has_a_name_of_many_words_that_fills";

async fn start(folder: &Folder) -> System {
    let manifest = format!(
        "id: wordy\nversion: 1.2.0\ndescription: {LONG}\ntype: inproc\nentry: echo\ntimeout_ms: 700\nidempotent: true\n\
         parameters:\n  text: {{type: string, required: true, description: The text}}\n  \
         count: {{type: integer, default: 3}}\nexamples: [{{name: one, input: {{text: hello}}}}]\n"
    );
    folder.write("wordy.yaml", manifest);
    folder.write("fails.yaml", "id: fails\ntype: inproc\nentry: fail\n");
    let system = Setup::with_skills(&[folder.path()]).flag("--workers", 1).start().await;
    system.has_skill("wordy").await;
    system
}

/// What a command prints on a terminal.
async fn on_terminal(system: &System, columns: u16, arguments: &[&str]) -> String {
    let terminal = Terminal::with_columns(columns);
    let mut command = Command::new(binary());
    command.args(arguments).args(["--url", &system.url()]).stdin(std::process::Stdio::null()).stdout(terminal.stdio());
    assert!(command.status().await.unwrap().success());
    drop(command);
    terminal.whole()
}

#[tokio::test]
async fn a_table_is_as_wide_as_the_terminal_and_never_cut_in_a_pipe() {
    let folder = Folder::new();
    let manifest = format!("id: {LONG_NAME}\ntype: inproc\nentry: fail\n");
    folder.write("long.yaml", manifest);
    let system = start(&folder).await;
    let piped = at(&system, &["skills"]).await.out;
    assert!(piped.lines().any(|line| line.ends_with(LONG)), "{piped}");
    let shown = on_terminal(&system, 80, &["skills"]).await;
    assert!(shown.lines().all(|line| line.chars().count() <= 80) && shown.contains('…'), "{shown}");
    assert!(shown.lines().any(|line| line.chars().count() > 70), "{shown}");
    let wider = on_terminal(&system, 100, &["skills"]).await;
    assert!(wider.lines().any(|line| line.chars().count() > 90), "{wider}");
    system.invoke(request(LONG_NAME, json!({"code": "EXECUTION_ERROR"}))).await;
    until("the call is recorded", PATIENCE, async || {
        at(&system, &["traces"]).await.out.contains("EXECUTION_ERROR").then_some(())
    })
    .await;
    for list in ["skills", "traces", "workers", "circuits"] {
        let shown = on_terminal(&system, 80, &[list]).await;
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{list}:\n{shown}");
    }
    let wide = on_terminal(&system, 80, &["skills", "-o", "wide"]).await;
    assert!(wide.contains(LONG) && wide.contains("  TIMEOUT  "), "{wide}");
}

#[tokio::test]
async fn lists_have_formats_for_people_and_for_programs() {
    let folder = Folder::new();
    let system = start(&folder).await;
    for command in ["skills", "workers", "circuits", "ps", "traces"] {
        let json = at(&system, &[command, "-o", "json"]).await;
        assert!(json.code == 0 && serde_json::from_str::<Vec<Value>>(&json.out).is_ok(), "{command}: {}", json.out);
        assert_eq!(at(&system, &[command, "--json"]).await.code, 0);
        assert_eq!(at(&system, &[command, "-o", "table"]).await.code, 0);
        assert_eq!(at(&system, &[command, "-o", "yaml"]).await.code, 0);
    }
    let yaml = at(&system, &["skills", "-o", "yaml"]).await.out;
    assert!(yaml.starts_with("- id: \"fails\"\n  version: ") && yaml.contains("\n- id: \"wordy\"\n"), "{yaml}");
    let wide = at(&system, &["workers", "-o", "wide"]).await.out;
    assert!(wide.starts_with("ID ") && wide.contains("  VERSION  "), "{wide}");
    assert_eq!(at(&system, &["skills", "-o", "xml"]).await.code, 2);
}

#[tokio::test]
async fn a_skill_and_a_worker_are_described() {
    let folder = Folder::new();
    let system = start(&folder).await;
    system.invoke(request("wordy", json!({"text": "x"}))).await;
    for _ in 0..3 {
        let given = request("fails", json!({"code": "EXECUTION_ERROR"}));
        system.invoke(openskill_proto::v1::InvokeRequest { session_id: "talk".to_owned(), ..given }).await;
    }
    let shown = at(&system, &["describe", "skill", "wordy"]).await;
    let expected = [
        "Id:           wordy\n",
        "Version:      1.2.0\n",
        "Status:       available\n",
        "Workers:      1\n",
        "Timeout:      700 ms\n",
        "Traits:       idempotent",
        "  text   string   yes       The text\n",
        "  count  integer  no        default 3\n",
        "Data:\n  any: the skill has no output schema\n",
        "Examples:\n  {\"text\":\"hello\"}\n",
        "Circuit breakers:\n  all closed\n",
    ];
    for part in expected {
        assert!(shown.out.contains(part), "{part}\n{}{}", shown.out, shown.err);
    }
    until("the call is recorded", PATIENCE, || async {
        let shown = at(&system, &["describe", "skill", "wordy"]).await.out;
        let (_, calls) = shown.split_once("Latest calls:\n").unwrap();
        (calls.contains("  TIME ") && calls.contains("  OK  ")).then_some(())
    })
    .await;
    let failing = at(&system, &["describe", "skill", "fails"]).await.out;
    assert!(failing.contains("Examples:\n  none\n"), "{failing}");
    assert!(failing.contains("Circuit breakers:\n  open for talk, 3 failures, retry in "), "{failing}");
    let worker = at(&system, &["describe", "worker", "worker-1"]).await.out;
    assert!(worker.contains("Status:       up\n") && worker.contains("Skills:       2 available\n"), "{worker}");
    let json = at(&system, &["describe", "skill", "wordy", "-o", "json"]).await.out;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["timeout_ms"], 700);
}
