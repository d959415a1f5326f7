//! The skills that are called. The runner writes them itself, so that no other change affects them.

use openskill_tests::folder::Folder;

/// Python: appends its call id to a file on each start. Must not run twice.
pub(crate) const EFFECT: &str = "effect";
/// The same, and idempotent.
pub(crate) const EFFECT_AGAIN: &str = "effect_again";
/// Python: answers.
pub(crate) const WORK: &str = "work";
/// Python: starts a child in its own session; neither ever ends.
pub(crate) const HOLD: &str = "hold";
/// Python: sleeps `ms`.
pub(crate) const SLEEP: &str = "sleep";
/// The same, at most four at once on a worker.
pub(crate) const SLEEP_FOUR: &str = "sleep_four";
/// In process: waits `ms`.
pub(crate) const WAIT: &str = "wait";
/// In process: returns its arguments, which must contain an integer.
pub(crate) const ECHO: &str = "echo";
/// In process: fails with `code`.
pub(crate) const FAIL: &str = "fail";
/// An unknown skill.
pub(crate) const UNKNOWN: &str = "no_such_skill";

/// The file of effects, in the allowed root.
pub(crate) const EFFECTS: &str = "effects.txt";

const EFFECT_SCRIPT: &str = r#"import json, os, sys
sys.stdin.read()
path = os.path.join(os.environ["OPENSKILL_ALLOWED_ROOT"], "effects.txt")
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
# One write: it is there as a whole or not at all.
os.write(file, (os.environ["OPENSKILL_CALL_ID"] + "\n").encode())
print(json.dumps({"success": True, "data": {}}))
"#;

const WORK_SCRIPT: &str = r#"import sys
sys.stdin.read()
print('{"success": true, "data": {}}')
"#;

const SLEEP_SCRIPT: &str = r#"import json, sys, time
time.sleep(json.load(sys.stdin)["input"]["ms"] / 1000)
print('{"success": true, "data": {}}')
"#;

const HOLD_SCRIPT: &str = r#"import os, time
if os.fork() == 0:
    os.setsid()
while True:
    time.sleep(1)
"#;

/// Writes them all into `skills/` of a folder.
pub(crate) fn write(folder: &Folder) {
    for (name, script) in
        [("effect.py", EFFECT_SCRIPT), ("work.py", WORK_SCRIPT), ("hold.py", HOLD_SCRIPT), ("sleep.py", SLEEP_SCRIPT)]
    {
        folder.write(&format!("skills/{name}"), script);
    }
    let python = |entry: &str| format!("type: cli\nruntime: python\nentry: {entry}\n");
    let function = |entry: &str| format!("type: inproc\nentry: {entry}\n");
    for (id, rest) in [
        (EFFECT, python("effect.py")),
        (EFFECT_AGAIN, python("effect.py") + "idempotent: true\n"),
        (WORK, python("work.py")),
        (HOLD, python("hold.py")),
        (SLEEP, python("sleep.py")),
        (SLEEP_FOUR, python("sleep.py") + "concurrency: 4\n"),
        (WAIT, function("wait")),
        (ECHO, function("echo") + "parameters:\n  number: {type: integer, required: true}\n"),
        (FAIL, function("fail")),
    ] {
        folder.write(&format!("skills/{id}.yaml"), format!("id: {id}\n{rest}"));
    }
}

/// Whether it must not run twice.
pub(crate) fn runs_at_most_once(skill: &str) -> bool {
    skill == EFFECT
}

pub(crate) fn has_effect(skill: &str) -> bool {
    skill == EFFECT || skill == EFFECT_AGAIN
}
