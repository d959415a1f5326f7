//! What the caller of a script that fails is told, and what a manifest sets in its environment.

use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::json;

async fn with(folder: &Folder) -> System {
    Setup::with_skills(&[folder.path()]).flag("--workers", 1).start().await
}

async fn message(system: &System, skill: &str) -> String {
    let result = system.invoke(request(skill, json!({}))).await;
    assert_ne!(code(&result), "", "{result:?}");
    result.error.unwrap().message
}

#[tokio::test]
async fn a_script_that_fails_names_its_exception_however_it_is_isolated() {
    let folder = Folder::new();
    folder.write("fails.py", "def rows():\n    raise LookupError('no rows in /srv/data/table.csv')\nrows()\n");
    folder.write("wrong.py", "def f(:\n");
    for isolation in ["fork", "process", "shared"] {
        for script in ["fails", "wrong"] {
            let id = format!("{script}_{isolation}");
            let manifest =
                format!("id: {id}\ntype: cli\nruntime: python\nentry: {script}.py\nisolation: {isolation}\n");
            folder.write(&format!("{id}.yaml"), manifest);
        }
    }
    let system = with(&folder).await;
    for isolation in ["fork", "process", "shared"] {
        let fails = message(&system, &format!("fails_{isolation}")).await;
        assert!(fails.ends_with("(exit code 1): LookupError: no rows in table.csv"), "{isolation}: {fails}");
        let wrong = message(&system, &format!("wrong_{isolation}")).await;
        assert!(wrong.contains("SyntaxError: "), "{isolation}: {wrong}");
    }
}

#[tokio::test]
async fn a_skill_that_misses_the_network_is_told_how_to_get_it() {
    let folder = Folder::new();
    folder.write("resolves.py", "import socket\nsocket.getaddrinfo('example.invalid', 443)\n");
    folder.write("connects.py", "import socket\nsocket.create_connection(('127.0.0.1', 9), 1)\n");
    let granted = "id: granted\ntype: cli\nruntime: python\nentry: connects.py\nnetwork: full\n";
    folder.write("granted.yaml", granted);
    let own = "id: connects\ntype: cli\nruntime: python\nentry: connects.py\n";
    folder.write("connects.yaml", own);
    let system = with(&folder).await;
    for skill in ["resolves", "connects"] {
        let said = message(&system, skill).await;
        assert!(
            said.ends_with("the skill has no network: grant it in its manifest, such as `network: [443]`"),
            "{said}"
        );
    }
    let said = message(&system, "granted").await;
    assert!(said.contains("ConnectionRefusedError") && !said.contains("manifest"), "{said}");
}

#[tokio::test]
async fn threads_of_numeric_libraries_are_one_unless_the_manifest_sets_them() {
    let folder = Folder::new();
    folder.write("shows.py", "import json, os\nprint(json.dumps(dict(os.environ)))\n");
    for (id, env) in [
        ("default", ""),
        ("listed", "env: [OMP_NUM_THREADS=4, GIVEN]\n"),
        ("named", "env: {OMP_NUM_THREADS: 4, GIVEN: null}\n"),
    ] {
        let manifest = format!("id: {id}\ntype: cli\nruntime: python\nentry: shows.py\n{env}");
        folder.write(&format!("{id}.yaml"), manifest);
    }
    let setup = Setup::with_skills(&[folder.path()]).with("GIVEN", "of the worker").with("OMP_NUM_THREADS", 8);
    let system = setup.flag("--workers", 1).start().await;
    let seen = async |skill: &str| {
        let result = system.invoke(request(skill, json!({}))).await;
        assert_eq!(code(&result), "", "{result:?}");
        data(&result)
    };
    let default = seen("default").await;
    for name in ["OMP", "OPENBLAS", "MKL", "NUMEXPR"] {
        assert_eq!(default[format!("{name}_NUM_THREADS")], "1");
    }
    for skill in ["listed", "named"] {
        let seen = seen(skill).await;
        assert_eq!((&seen["OMP_NUM_THREADS"], &seen["OPENBLAS_NUM_THREADS"]), (&json!("4"), &json!("1")), "{skill}");
        assert_eq!(seen["GIVEN"], "of the worker", "{skill}");
    }
}
