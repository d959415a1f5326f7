//! The skills that are measured: each gives back what it was given.

use openskill_tests::folder::Folder;
use serde_json::{Value, json};

/// A skill, and how it stands in the table.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) jail: &'static str,
    pub(crate) skill: String,
    pub(crate) input: Value,
}

/// The script, the same for each way of running it.
const SCRIPT: &str = "import json\nimport sys\n\ncall = json.load(sys.stdin)\nprint(json.dumps({\"echoed\": call[\"input\"][\"text\"]}))\n";

/// Writes their manifests.
pub(crate) async fn write(folder: &Folder) -> Vec<Contender> {
    folder.write("script.py", SCRIPT);
    let mut all = Vec::new();
    let ways = [("process", "fresh interpreter"), ("fork", "warm fork"), ("shared", "shared interpreter")];
    for (isolation, name) in ways {
        let more = format!("runtime: python\nentry: script.py\nisolation: {isolation}\n");
        add_both(&mut all, folder, isolation, &format!("`cli:python`, {name}"), &format!("type: cli\n{more}"));
    }
    add_both(&mut all, folder, "exec", "`cli:exec` (`cat`)", "type: cli\nruntime: exec\nentry: /bin/cat\n");
    add(&mut all, folder, "inproc", "`inproc`", "", "type: inproc\nentry: echo\n");
    all
}

/// With the jail and without.
fn add_both(all: &mut Vec<Contender>, folder: &Folder, skill: &str, name: &str, how: &str) {
    add(all, folder, skill, name, "on", how);
    add(all, folder, &format!("{skill}_bare"), name, "off", &format!("{how}jail: \"off\"\n"));
}

fn add(all: &mut Vec<Contender>, folder: &Folder, skill: &str, name: &str, jail: &'static str, how: &str) {
    let schema = "parameters:\n  text: {type: string, required: true}\n";
    folder.write(&format!("{skill}.yaml"), format!("id: {skill}\n{how}{schema}"));
    let input = json!({"text": "hello"});
    all.push(Contender { name: name.to_owned(), jail, skill: skill.to_owned(), input });
}
