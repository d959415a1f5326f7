//! The Python library as a wheel: it is built and installed without a network, and its test helper judges as a worker does.

use std::collections::BTreeSet;
use std::path::PathBuf;

use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, code, data, request};
use openskill_tests::{fixtures, repository};
use serde_json::{Value, json};
use tokio::process::Command;

/// A virtual environment with nothing but the wheel.
struct Installed {
    folder: Folder,
    python: PathBuf,
}

async fn run(command: &mut Command) -> String {
    let output = command.env_remove("PYTHONPATH").output().await.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}

/// Builds the wheel with what `make test-venv` installed, and installs it. None: the test is skipped.
async fn install() -> Option<Installed> {
    let builder = repository().join("target/test-venv/bin/python");
    if !builder.exists() {
        skip(Need::Venv, "target/test-venv is not there; run `make test-venv`");
        return None;
    }
    let folder = Folder::new();
    let offline = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"];
    let wheel = ["-m", "pip", "wheel", "--no-build-isolation", "--wheel-dir", "dist"];
    let source = repository().join("worker/skills");
    run(Command::new(&builder).args(wheel).args(offline).arg(source).current_dir(folder.path())).await;
    run(Command::new(&builder).args(["-m", "venv", "venv"]).current_dir(folder.path())).await;
    let python = folder.path().join("venv/bin/python");
    let file = std::fs::read_dir(folder.path().join("dist")).unwrap().next().unwrap().unwrap().path();
    let name = format!("openskill_sdk-{}-py3-none-any.whl", env!("CARGO_PKG_VERSION"));
    assert_eq!(file.file_name().unwrap(), name.as_str());
    run(Command::new(&python).args(["-m", "pip", "install"]).args(offline).arg(file)).await;
    Some(Installed { folder, python })
}

#[tokio::test]
async fn a_skill_of_ones_own_is_tested_with_the_wheel_alone() {
    let Some(Installed { folder, python }) = install().await else { return };
    let skill = "from openskill_sdk import Fields, SkillError, artifact, ask, partial, progress, run\n\
                 from openskill_sdk.paths import Root\n\
                 def handle(input):\n\
                 \x20   fields = Fields(input)\n\
                 \x20   path = fields.string('path', required=True)\n\
                 \x20   with Root() as root:\n\
                 \x20       content, _ = root.read(path)\n\
                 \x20   if content.count(b'\\n') > 2 and not ask('Go on?')['yes']:\n\
                 \x20       raise SkillError('INVALID_ARGUMENT', 'it is long')\n\
                 \x20   progress(1, 'counted')\n\
                 \x20   artifact('copy.txt', content)\n\
                 \x20   return content.count(b'\\n')\n\
                 if __name__ == '__main__':\n\
                 \x20   run(handle)\n";
    folder.write("lines.py", skill);
    let test = "import unittest, tempfile, pathlib\n\
                from openskill_sdk.testing import run_skill\n\
                class Lines(unittest.TestCase):\n\
                \x20   def call(self, content, **options):\n\
                \x20       with tempfile.TemporaryDirectory() as place:\n\
                \x20           root = pathlib.Path(place, 'data')\n\
                \x20           root.mkdir()\n\
                \x20           (root / 'a.txt').write_text(content)\n\
                \x20           return run_skill('lines.py', {'path': 'data/a.txt'}, allowed_root=root, **options)\n\
                \x20   def test_lines(self):\n\
                \x20       outcome = self.call('a\\nb\\n')\n\
                \x20       self.assertEqual((outcome.success, outcome.data, outcome.exit_code), (True, 2, 0), outcome)\n\
                \x20       self.assertEqual(outcome.progress, [{'fraction': 1.0, 'message': 'counted'}])\n\
                \x20       self.assertEqual([(it.name, it.data) for it in outcome.artifacts], [('copy.txt', b'a\\nb\\n')])\n\
                \x20   def test_answers(self):\n\
                \x20       self.assertEqual(self.call('a\\n' * 3, answers=[{'yes': True}]).data, 3)\n\
                \x20       refused = self.call('a\\n' * 3, answers=lambda question: {'yes': question['message'] != 'Go on?'})\n\
                \x20       self.assertEqual((refused.code, refused.exit_code), ('INVALID_ARGUMENT', 1))\n\
                \x20       self.assertEqual(self.call('a\\n' * 3).code, 'ASK_USER_UNAVAILABLE')\n\
                \x20       self.assertEqual(self.call('a\\n' * 3, answers=['decline']).details, {'action': 'decline'})\n\
                \x20   def test_outside(self):\n\
                \x20       self.assertEqual(run_skill('lines.py', {'path': '/etc/passwd'}).code, 'FORBIDDEN_PATH')\n";
    folder.write("test_lines.py", test);
    let said = run(Command::new(&python).args(["-m", "unittest", "-v", "test_lines"]).current_dir(folder.path())).await;
    assert!(said.contains("Ran 3 tests") && said.contains("OK"), "{said}");
    let typed =
        "import openskill_sdk, pathlib; print(pathlib.Path(openskill_sdk.__file__).with_name('py.typed').exists())";
    assert_eq!(run(Command::new(&python).args(["-c", typed]).current_dir("/")).await.trim(), "True");
}

/// Runs each script with the test helper and prints its outcome.
const JUDGES: &str = "import json, sys\n\
    from openskill_sdk.testing import run_skill\n\
    for script in sys.argv[1:]:\n\
    \x20   it = run_skill(script, {'what': 'echo'}, timeout=20)\n\
    \x20   artifacts = [[a.name, a.media_type, len(a.data)] for a in it.artifacts]\n\
    \x20   print(json.dumps({'code': it.code, 'message': it.message, 'data': it.data, 'text': it.text, 'artifacts': artifacts}))\n";

#[tokio::test]
async fn the_test_helper_judges_as_a_worker_does() {
    let Some(Installed { folder: _folder, python }) = install().await else { return };
    let system = Setup::with_skills(&[&fixtures(), &repository().join("worker/skills")]).start().await;
    let skills = [
        "exits_one",
        "leaves_daemon",
        "prints_twice",
        "prints_nothing",
        "raises",
        "refuses",
        "lists_artifacts",
        "writes_bytes",
        "dies_half_way",
        "prints_much",
        "closes_everything",
        "reports_progress",
        "conforms",
    ];
    let scripts = skills.map(|skill| fixtures().join(format!("{skill}.py")));
    let said = run(Command::new(&python).args(["-c", JUDGES]).args(scripts)).await;
    assert_eq!(said.lines().count(), skills.len(), "{said}");
    for (skill, line) in skills.iter().zip(said.lines()) {
        let helped: Value = serde_json::from_str(line).unwrap();
        let id = if *skill == "conforms" { "conforms_process" } else { skill };
        let result = system.invoke(request(id, json!({"what": "echo"}))).await;
        assert_eq!(helped["code"], code(&result), "{skill}: {result:?}");
        // Without a text of the skill's own, the gateway writes one.
        assert!(helped["text"] == "" || helped["text"] == result.text, "{skill}: {result:?}");
        let artifacts: Vec<_> =
            result.artifacts.iter().map(|it| json!([it.name, it.media_type, it.size_bytes])).collect();
        assert_eq!(helped["artifacts"], json!(artifacts), "{skill}");
        if *skill == "conforms" {
            let names = |data: &Value| -> BTreeSet<String> {
                data["environment"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
            };
            let (ours, theirs) = (names(&helped["data"]), names(&data(&result)));
            assert!(ours.is_subset(&theirs), "{:?}", ours.difference(&theirs));
            assert!(ours.contains("OPENSKILL_TIMEOUT_MS") && ours.contains("TMPDIR"), "{ours:?}");
            continue;
        }
        match &result.error {
            None => assert_eq!(helped["data"], data(&result), "{skill}"),
            // What a script wrote to stderr may be in the message.
            Some(_) if *skill == "raises" => {}
            // A worker also shows what was printed.
            Some(error) => {
                assert!(error.message.starts_with(helped["message"].as_str().unwrap()), "{skill}: {error:?}")
            }
        }
    }
}
