//! What the commands print of the text of others: visible in a terminal, and the same value as JSON.

use std::process::{Output, Stdio};

use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{HIDDEN, hidden_in};

async fn start(folder: &Folder) -> System {
    folder.write("in_echo.yaml", "id: in_echo\ntype: inproc\nentry: echo\ndescription: \"see \\u202etxt\\u200b\"\n");
    folder.write("in_fail.yaml", "id: in_fail\ntype: inproc\nentry: fail\n");
    let system = Setup::with_skills(&[folder.path()]).flag("--workers", 1).start().await;
    system.has_skill("in_fail").await;
    system
}

async fn run(system: &System, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env("OPENSKILL_HTTP_BASE_URL", system.url()).stdin(Stdio::null());
    command.output().await.unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Every hidden character.
fn all() -> String {
    HIDDEN.iter().flat_map(|(first, last)| *first..=*last).collect()
}

/// JSON that is ASCII, for an argument of a command.
fn ascii(value: &Value) -> String {
    let text = value.to_string();
    let escape = |unit: &u16| match u8::try_from(*unit) {
        Ok(byte @ b' '..=b'~') => char::from(byte).to_string(),
        _ => format!("\\u{unit:04x}"),
    };
    text.encode_utf16().collect::<Vec<_>>().iter().map(escape).collect()
}

#[tokio::test]
async fn json_output_hides_nothing_and_is_the_same_value() {
    let folder = Folder::new();
    let system = start(&folder).await;
    let input = json!({ "text": all() });
    let arguments = ["invoke", "in_echo", "--json", &ascii(&input)];
    for (more, place) in [(&[][..], ""), (&["--full"], "/data"), (&["--stream"], "/data/data")] {
        let ran = run(&system, &[&arguments[..], more].concat()).await;
        let out = text(ran.stdout);
        assert_eq!(hidden_in(&out), [' '; 0], "{more:?}");
        let json = if more == ["--stream"] { out.lines().last().unwrap() } else { &out };
        let value: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{more:?}: {error}: {json}"));
        assert!(value.pointer(&format!("{place}/text")) == Some(&input["text"]), "{more:?}");
    }
    let listed = text(run(&system, &["skills", "--json"]).await.stdout);
    assert_eq!(hidden_in(&listed), [' '; 0]);
    let skills: Value = serde_json::from_str(&listed).unwrap();
    let descriptions: Vec<_> = skills.as_array().unwrap().iter().map(|it| it["description"].clone()).collect();
    assert!(descriptions.contains(&json!("see \u{202e}txt\u{200b}")), "{descriptions:?}");
}

#[tokio::test]
async fn a_terminal_shows_what_a_text_hides() {
    let folder = Folder::new();
    let system = start(&folder).await;
    let table = text(run(&system, &["skills"]).await.stdout);
    assert!(table.contains("see \\u{202e}txt\\u{200b}") && hidden_in(&table).is_empty(), "{table}");
    let ends: String = HIDDEN.iter().flat_map(|(first, last)| [*first, *last]).collect();
    let input = ascii(&json!({ "code": "NOT_FOUND", "message": ends }));
    let told = text(run(&system, &["invoke", "in_fail", "--json", &input]).await.stderr);
    assert_eq!(hidden_in(&told), [' '; 0], "{told:?}");
    for character in ends.chars() {
        assert!(told.contains(&character.escape_default().to_string()), "{character:?}: {told:?}");
    }
}
