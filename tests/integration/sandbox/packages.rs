//! Packages that calls install in sessions: what a session gets, and what no wheel can do.

use std::path::PathBuf;
use std::time::Duration;

use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::{Setup, System, code, data, request};
use openskill_tests::wait::{until, until_none_is_left, until_true};
use openskill_tests::wheel;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{EXECUTE, run, sandbox};

/// Installers take seconds on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Wheels and a store, in a folder of the test's own.
struct Stage {
    folder: Folder,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path().join("wheels")).unwrap();
        Self { folder }
    }

    fn wheels(&self) -> PathBuf {
        self.folder.path().join("wheels")
    }

    fn wheel(&self, name: &str, version: &str, requires: &[&str]) {
        let module = format!("VERSION = '{version}'\n");
        wheel::write(&self.wheels(), name, version, &module, requires);
    }

    /// With wheels of the folder alone.
    fn setup(&self, allowed: &str) -> Setup {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        Setup::shipped()
            .flag("--workers", 1)
            .with("OPENSKILL_SESSION_PACKAGES", allowed)
            .with("OPENSKILL_PYTHON_ENVIRONMENTS", path("store"))
            .with("OPENSKILL_PYTHON_INDEX_URL", "none")
            .with("OPENSKILL_PYTHON_FIND_LINKS", path("wheels"))
    }

    async fn start(&self, allowed: &str) -> Option<System> {
        let system = sandbox(self.setup(allowed)).await?;
        system.has_skill("microsandbox_install_package").await;
        Some(system)
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store/packages")
    }

    /// What is in the store: complete entries, and those that begin with a dot, but locks.
    fn entries(&self) -> (Vec<String>, Vec<String>) {
        let names = std::fs::read_dir(self.store()).into_iter().flatten().flatten();
        let names = names.map(|it| it.file_name().into_string().unwrap()).filter(|it| !it.starts_with(".lock-"));
        names.partition(|it| !it.starts_with('.'))
    }

    /// What is being built.
    fn unfinished(&self) -> Vec<String> {
        self.entries().1.into_iter().filter(|it| !it.starts_with(".use-")).collect()
    }
}

async fn install(system: &System, input: Value) -> SkillResult {
    let call = request("microsandbox_install_package", input);
    system.invoke(InvokeRequest { timeout_ms: PATIENCE.as_millis() as u32, ..call }).await
}

/// Installs a package, and gives the data of the result.
async fn installed(system: &System, package: &str, session: &str) -> Value {
    let result = install(system, json!({"package_name": package, "session_id": session})).await;
    assert_eq!(code(&result), "", "{package}: {result:?}");
    data(&result)
}

/// The code and the message of a call that fails.
async fn refused(system: &System, input: Value) -> (&'static str, String) {
    let result = install(system, input.clone()).await;
    assert!(!result.success, "{input}: {result:?}");
    (code(&result), result.error.unwrap().message)
}

async fn result(system: &System, code_: &str, session: &str) -> Value {
    let told = run(system, code_, session).await;
    assert_eq!(told["error"], Value::Null, "{told}");
    told["result"].clone()
}

#[tokio::test]
async fn a_session_that_goes_on_gets_a_package_and_others_do_not() {
    let stage = Stage::new();
    stage.wheel("shade", "2.0", &["tint"]);
    stage.wheel("tint", "1.5", &[]);
    let Some(system) = stage.start("shade tint").await else { return };
    let missing = run(&system, "x = 41\nimport shade", "a").await;
    assert_eq!(missing["error"]["name"], "ModuleNotFoundError", "{missing}");
    let told = installed(&system, "Shade", "a").await;
    assert_eq!(
        (&told["already"], &told["session_state"], &told["session_id"]),
        (&json!(false), &json!("kept"), &json!("a"))
    );
    let packages = told["packages"].as_array().unwrap();
    let of = |it: &Value| (it["name"].clone(), it["version"].clone(), it["requested"].clone(), it["imports"].clone());
    let expected = [
        (json!("shade"), json!("2.0"), json!(true), json!(true)),
        (json!("tint"), json!("1.5"), json!(false), json!(true)),
    ];
    assert_eq!(packages.iter().map(of).collect::<Vec<_>>(), expected);
    let file = stage.wheels().join("shade-2.0-py3-none-any.whl");
    let summed = std::process::Command::new("sha256sum").arg(file).output().unwrap();
    assert!(String::from_utf8(summed.stdout).unwrap().starts_with(packages[0]["sha256"].as_str().unwrap()));
    assert_eq!(
        result(&system, "import shade, tint\n(x + 1, shade.VERSION, tint.VERSION)", "a").await,
        "(42, '2.0', '1.5')"
    );
    let counted = run(&system, "1", "a").await;
    assert_eq!((&counted["execution_count"], &counted["session_state"]), (&json!(3), &json!("kept")));
    // A session of the same owner, and a call without one.
    for session in ["b", ""] {
        let other = run(&system, "import shade", session).await;
        assert_eq!(other["error"]["name"], "ModuleNotFoundError", "{other}");
    }
    assert_eq!(installed(&system, "shade", "a").await["already"], true);
    let second = installed(&system, "shade", "b").await;
    assert_eq!((&second["already"], &second["packages"]), (&json!(false), &told["packages"]));
    assert_eq!(result(&system, "import shade\nshade.VERSION", "b").await, "'2.0'");
    // Two wheels, and what was asked for.
    assert_eq!((stage.entries().0.len(), stage.unfinished()), (3, vec![]));
}

#[tokio::test]
async fn without_a_session_one_begins_and_is_named() {
    let stage = Stage::new();
    stage.wheel("shade", "1.0", &[]);
    stage.wheel("shade", "2.0", &[]);
    let Some(system) = stage.start("shade").await else { return };
    let told = data(&install(&system, json!({"package_name": "shade", "version": "1.0"})).await);
    assert_eq!(told["session_state"], "new", "{told}");
    let session = told["session_id"].as_str().unwrap();
    assert_eq!(result(&system, "import shade\nshade.VERSION", session).await, "'1.0'");
    let (code, message) = refused(&system, json!({"package_name": "shade", "session_id": session})).await;
    assert!(code == "INVALID_ARGUMENT" && message.contains("already has shade 1.0"), "{message}");
    assert_eq!(result(&system, "shade.VERSION", session).await, "'1.0'");
}

#[tokio::test]
async fn what_the_operator_does_not_allow_is_not_installed() {
    let stage = Stage::new();
    stage.wheel("shade", "1.0", &["tint"]);
    stage.wheel("tint", "1.0", &[]);
    stage.wheel("hue", "1.0", &[]);
    stage.wheel("hue", "2.0", &[]);
    let Some(system) = stage.start("shade hue<2").await else { return };
    let of = |name: &str| json!({"package_name": name, "session_id": "a"});
    for (input, wanted, words) in [
        (of("tint"), "PERMISSION_DENIED", &["'tint'", "OPENSKILL_SESSION_PACKAGES"][..]),
        (of("shadde"), "PERMISSION_DENIED", &["'shadde'", "resembles 'shade'"]),
        (of("shade"), "PERMISSION_DENIED", &["'shade'", "needs", "tint"]),
        (json!({"package_name": "hue", "version": "2.0"}), "PERMISSION_DENIED", &["hue 2.0", "no version"]),
        (of("hue==1.0"), "INVALID_ARGUMENT", &["package_name"]),
        (of("https://elsewhere/hue.whl"), "INVALID_ARGUMENT", &["package_name"]),
    ] {
        let (code, message) = refused(&system, input.clone()).await;
        assert!(code == wanted && words.iter().all(|it| message.contains(it)), "{input}: {code} {message}");
    }
    until_none_is_left("unfinished entries", PATIENCE, || stage.unfinished()).await;
    assert!(stage.entries().0.is_empty(), "{:?}", stage.entries());
    assert_eq!(installed(&system, "hue", "a").await["packages"][0]["version"], "1.0");
}

#[tokio::test]
async fn a_wheel_that_means_harm_is_refused_and_leaves_nothing() {
    let stage = Stage::new();
    let module = "VERSION = '1.0'\n";
    let craft = |name: &str, more: &str| wheel::craft(&stage.wheels(), name, module, more);
    craft("climbing", "files['../../climbed.py'] = 'x'");
    craft("absolute", "files['/tmp/climbed.py'] = 'x'");
    craft(
        "linking",
        "def extra(wheel):\n    info = zipfile.ZipInfo('linked')\n    info.external_attr = (stat.S_IFLNK | 0o777) << 16\n    \
         wheel.writestr(info, '/etc')\nhashes['linked'] = ''",
    );
    craft("forged", "hashes['forged.py'] = 'sha256=' + 'A' * 43");
    craft("unlisted", "def extra(wheel): wheel.writestr('more.py', 'x')");
    craft("crowded", "files.update({f'many/{n}.txt': '' for n in range(20001)})");
    let bomb = "def extra(wheel):\n    with wheel.open('zeros', 'w') as file:\n        \
                for _ in range(1100): file.write(bytes(1 << 20))\nhashes['zeros'] = ''";
    craft("bomb", bomb);
    // A wheel in the folder that is 5 GiB long, and takes no place on the disk.
    let huge = std::fs::File::create(stage.wheels().join("huge-1.0-py3-none-any.whl")).unwrap();
    huge.set_len(5 << 30).unwrap();
    craft("huge", "");
    stage.folder.write("wheels/broken-1.0-py3-none-any.whl", "no zip file");
    stage.folder.write("wheels/source-1.0.tar.gz", "sources");
    // What another place would serve in the name of an allowed package, and what pip would build.
    let elsewhere = stage.folder.path().join("elsewhere");
    wheel::write(&elsewhere, "good", "6.6", module, &[]);
    let wheel = elsewhere.join("good-6.6-py3-none-any.whl").display().to_string();
    stage.wheel("detour", "1.0", &[&format!("good @ file://{wheel}")]);
    stage.wheel("building", "1.0", &["good @ https://127.0.0.1:9/good-6.6.tar.gz"]);
    stage.wheel("good", "1.0", &[]);
    let all = [
        "climbing", "absolute", "linking", "forged", "unlisted", "crowded", "bomb", "huge", "broken", "source",
        "detour", "building",
    ];
    let Some(system) = stage.start(&format!("good {}", all.join(" "))).await else { return };
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    run(&system, "x = 41", "a").await;
    for (name, wanted, word) in [
        ("climbing", "EXECUTION_ERROR", "outside"),
        ("absolute", "EXECUTION_ERROR", "outside"),
        ("linking", "EXECUTION_ERROR", "link"),
        ("forged", "EXECUTION_ERROR", "hash"),
        ("unlisted", "EXECUTION_ERROR", "RECORD"),
        ("crowded", "EXECUTION_ERROR", "more than 20000 files"),
        ("bomb", "EXECUTION_ERROR", "more than 1073741824 bytes"),
        ("huge", "EXECUTION_ERROR", "more than 268435456 bytes"),
        ("broken", "EXECUTION_ERROR", "broken"),
        ("source", "NOT_FOUND", "never built from source"),
        ("detour", "EXECUTION_ERROR", "a URL in place of a version"),
        ("building", "EXECUTION_ERROR", "a URL in place of a version"),
    ] {
        let (code, message) = refused(&system, json!({"package_name": name, "session_id": "a"})).await;
        assert!(code == wanted && message.contains(word), "{name}: {code} {message}");
        let store = stage.store().display().to_string();
        assert!(!message.contains(&store) && !message.contains("/wheels"), "{name}: a path of the host: {message}");
    }
    let missing = json!({"package_name": "good", "version": "9.9", "session_id": "a"});
    let (code, message) = refused(&system, missing).await;
    assert!(code == "NOT_FOUND" && message.contains("9.9"), "{message}");
    until_none_is_left("unfinished entries", PATIENCE, || stage.unfinished()).await;
    assert!(stage.entries().0.is_empty(), "{:?}", stage.entries());
    until_none_is_left("installers", PATIENCE, || installers(worker)).await;
    assert!(!stage.folder.path().join("climbed.py").exists() && !std::path::Path::new("/tmp/climbed.py").exists());
    installed(&system, "good", "a").await;
    assert_eq!(result(&system, "import good\nx + 1", "a").await, "42");
}

/// Processes of a worker that download, unpack or try packages.
fn installers(worker: i32) -> Vec<String> {
    let all = processes::descendants(worker).into_iter().map(processes::command_line);
    all.filter(|it| it.contains("-I -B -c")).collect()
}

#[tokio::test]
async fn a_package_that_does_not_import_says_why() {
    let stage = Stage::new();
    wheel::craft(&stage.wheels(), "moody", "raise ValueError('not today')\n", "");
    wheel::craft(&stage.wheels(), "deadly", "import os\nos._exit(3)\n", "");
    wheel::craft(&stage.wheels(), "broken", "def (:\n", "");
    let Some(system) = stage.start("moody deadly broken").await else { return };
    for (name, why) in [("moody", "ValueError: not today"), ("deadly", "ended"), ("broken", "SyntaxError")] {
        let told = installed(&system, name, "a").await;
        let package = &told["packages"][0];
        assert_eq!(package["imports"], false, "{told}");
        assert!(package["import_error"].as_str().unwrap().contains(why), "{told}");
    }
    assert_eq!(result(&system, "40 + 2", "a").await, "42", "the session goes on");
}

#[tokio::test]
async fn a_session_changes_nothing_that_was_installed_and_sees_nothing_of_other_owners() {
    let stage = Stage::new();
    stage.wheel("shade", "1.0", &[]);
    let Some(system) = stage.start("shade").await else { return };
    let of = |conversation: &str, skill: &str, input: Value| {
        let call = request(&format!("microsandbox_{skill}"), input);
        InvokeRequest { session_id: conversation.to_owned(), timeout_ms: PATIENCE.as_millis() as u32, ..call }
    };
    let mut folders = Vec::new();
    for conversation in ["one", "two"] {
        let input = json!({"package_name": "shade", "session_id": "s"});
        let told = system.invoke(of(conversation, "install_package", input)).await;
        assert_eq!(code(&told), "", "{told:?}");
        let where_ = json!({"code": "import shade\nprint(shade.__file__)", "session_id": "s"});
        let file = data(&system.invoke(of(conversation, "execute", where_)).await)["stdout"]
            .as_str()
            .unwrap()
            .trim()
            .to_owned();
        folders.push(PathBuf::from(file).parent().unwrap().to_owned());
    }
    let attempts = "import os, shade\nfolder = os.path.dirname(shade.__file__)\ndone = []\n\
                    def attempt(name, work):\n    try:\n        work()\n        done.append(name)\n    except OSError:\n        pass\n\
                    attempt('write', lambda: open(shade.__file__, 'a'))\n\
                    attempt('make', lambda: open(folder + '/more.py', 'w'))\n\
                    attempt('mode', lambda: os.chmod(shade.__file__, 0o777))\n\
                    attempt('remove', lambda: os.remove(shade.__file__))\n\
                    attempt('rename', lambda: os.rename(shade.__file__, folder + '/other.py'))\n\
                    attempt('link', lambda: os.link(shade.__file__, 'linked.py'))\n\
                    attempt('list others', lambda: os.listdir(OTHER))\n\
                    attempt('read others', lambda: open(OTHER + '/shade.py'))\n\
                    attempt('list the store', lambda: os.listdir(STORE))\n\
                    done"
        .replace("OTHER", &format!("{:?}", folders[1]))
        .replace("STORE", &format!("{:?}", stage.store()));
    let told = data(&system.invoke(of("one", "execute", json!({"code": attempts, "session_id": "s"}))).await);
    assert_eq!(told["result"], "[]", "{told}");
    let closed = system.invoke(of("one", "close_session", json!({"session_id": "s"}))).await;
    assert_eq!(code(&closed), "");
    until_true("the folder of a closed session is gone", PATIENCE, || !folders[0].exists()).await;
    assert!(folders[1].join("shade.py").exists());
}

/// An index with one wheel, which it names by the right hash or by another.
async fn index(stage: &Stage, is_right: bool) -> Backend {
    let file = stage.wheels().join("shade-1.0-py3-none-any.whl");
    let content = std::fs::read(&file).unwrap();
    let summed = std::process::Command::new("sha256sum").arg(file).output().unwrap();
    let right = String::from_utf8(summed.stdout).unwrap()[..64].to_owned();
    let hash = if is_right { right } else { "0".repeat(64) };
    Backend::start(move |seen| {
        let page =
            format!("<a href=\"/files/shade-1.0-py3-none-any.whl#sha256={hash}\">shade-1.0-py3-none-any.whl</a>");
        match seen.path() {
            "/simple/shade/" => Reply::new(200, "text/html", page),
            "/files/shade-1.0-py3-none-any.whl" => Reply::new(200, "application/octet-stream", content.clone()),
            _ => Reply::new(404, "text/plain", "there is nothing"),
        }
    })
    .await
}

#[tokio::test]
async fn an_index_is_asked_and_held_to_its_hashes() {
    let stage = Stage::new();
    stage.wheel("shade", "1.0", &[]);
    for (is_right, wanted) in [(true, ""), (false, "EXECUTION_ERROR")] {
        let index = index(&stage, is_right).await;
        let setup = stage.setup("shade").with("OPENSKILL_PYTHON_INDEX_URL", format!("{}/simple", index.url("")));
        let Some(system) = sandbox(setup.with("OPENSKILL_PYTHON_FIND_LINKS", "")).await else { return };
        system.has_skill("microsandbox_install_package").await;
        let told = install(&system, json!({"package_name": "shade", "session_id": "a"})).await;
        assert_eq!(code(&told), wanted, "{told:?}");
        if !is_right {
            assert!(told.error.unwrap().message.to_lowercase().contains("hash"));
            until_none_is_left("unfinished entries", PATIENCE, || stage.unfinished()).await;
        }
    }
    assert_eq!(stage.entries().0.len(), 2, "of the right one");
}

#[tokio::test]
async fn two_sessions_that_ask_at_once_share_what_is_installed_once() {
    let stage = Stage::new();
    stage.wheel("shade", "1.0", &[]);
    let Some(system) = stage.start("shade").await else { return };
    let told = tokio::join!(
        installed(&system, "shade", "a"),
        installed(&system, "shade", "b"),
        installed(&system, "shade", "c")
    );
    for it in [told.0, told.1, told.2] {
        assert_eq!((&it["already"], &it["packages"][0]["imports"]), (&json!(false), &json!(true)));
    }
    assert_eq!((stage.entries().0.len(), stage.unfinished()), (2, vec![]));
}

#[tokio::test]
async fn what_a_killed_worker_was_installing_is_gone_after_the_next_start() {
    let stage = Stage::new();
    stage.wheel("shade", "1.0", &[]);
    stage.wheel("tint", "1.0", &[]);
    // It takes the question and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/simple", listener.local_addr().unwrap());
    let setup = stage.setup("shade tint").with("OPENSKILL_PYTHON_INDEX_URL", url);
    let Some(system) = sandbox(setup.with("OPENSKILL_PYTHON_FIND_LINKS", "")).await else { return };
    system.has_skill("microsandbox_install_package").await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    run(&system, "1", "kept").await;
    let client = system.skills().await;
    let call = request("microsandbox_install_package", json!({"package_name": "shade", "session_id": "kept"}));
    let mut asks = client.clone();
    let asking = tokio::spawn(async move { asks.invoke(InvokeRequest { timeout_ms: 100_000, ..call }).await });
    let asked = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("pip asks the index");
    let before = processes::descendants(worker);
    assert!(!installers(worker).is_empty() && !stage.unfinished().is_empty());
    let (_, used) = stage.entries();
    processes::send(worker, Signal::KILL);
    until_none_is_left("processes", PATIENCE, || {
        before.iter().filter(|pid| processes::is_alive(**pid)).map(|pid| processes::command_line(*pid)).collect()
    })
    .await;
    drop(asked);
    drop(listener);
    let _ = asking.await;
    // The worker that comes in its place sweeps up.
    until_none_is_left("what the killed worker left", PATIENCE, || {
        stage.entries().1.into_iter().filter(|it| used.contains(it)).collect()
    })
    .await;
    until("sessions go on", PATIENCE, || {
        let mut client = client.clone();
        async move {
            let told = client.invoke(request(EXECUTE, json!({"code": "1", "session_id": "fresh"}))).await;
            told.is_ok_and(|it| it.into_inner().success).then_some(())
        }
    })
    .await;
    assert!(stage.entries().0.is_empty());
}

#[tokio::test]
async fn a_worker_that_may_not_install_says_which_setting_is_missing() {
    let stage = Stage::new();
    for (allowed, links, word) in
        [("", "wheels", "OPENSKILL_SESSION_PACKAGES"), ("shade", "", "OPENSKILL_PYTHON_FIND_LINKS")]
    {
        let Some(system) = sandbox(stage.setup(allowed).with("OPENSKILL_PYTHON_FIND_LINKS", links)).await else {
            return;
        };
        let (code, message) = refused(&system, json!({"package_name": "shade"})).await;
        assert!(code == "UNAVAILABLE" && message.contains(word), "{message}");
        assert!(!stage.store().exists(), "nothing is made for what is not there");
    }
}
