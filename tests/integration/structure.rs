//! The edges between crates, rooms and files, and other things that are absent on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use openskill_tests::repository;

mod imports;
mod names;
mod picture;
mod rooms;
mod text;

use imports::{Imports, Module, module_of};
use text::{code, production};

/// The folders with production code.
const CRATES: [&str; 17] = [
    "proto",
    "crates/agent",
    "crates/builtins",
    "crates/identity",
    "crates/model",
    "crates/net",
    "crates/readers",
    "crates/readers-protocol",
    "crates/redact",
    "crates/sandbox",
    "crates/skill",
    "crates/store",
    "crates/telemetry",
    "crates/text",
    "gateway",
    "worker",
    "cli",
];

/// Which of our crates a crate's manifest names.
fn edges(folder: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let names = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter_map(|name| name.strip_prefix("openskill-")).map(str::to_owned).collect()
}

#[test]
fn crates_depend_only_on_the_crates_below_them() {
    for (folder, allowed) in [
        ("proto", &[][..]),
        ("crates/agent", &["identity", "model", "proto", "store", "telemetry"]),
        ("crates/builtins", &["model", "net", "proto", "readers-protocol", "sandbox", "telemetry", "text"]),
        ("crates/identity", &["proto"]),
        ("crates/model", &["net", "proto", "text"]),
        ("crates/net", &[]),
        ("crates/readers", &["readers-protocol"]),
        ("crates/readers-protocol", &[]),
        ("crates/redact", &[]),
        ("crates/sandbox", &["proto", "telemetry"]),
        ("crates/skill", &["proto"]),
        ("crates/store", &["net"]),
        ("crates/telemetry", &["proto"]),
        ("crates/text", &[]),
        ("gateway", &["agent", "identity", "model", "net", "proto", "redact", "skill", "store", "telemetry", "text"]),
        ("worker", &["builtins", "net", "proto", "redact", "sandbox", "skill", "telemetry", "text"]),
        (
            "cli",
            &[
                "agent",
                "builtins",
                "gateway",
                "identity",
                "model",
                "net",
                "proto",
                "redact",
                "sandbox",
                "store",
                "telemetry",
                "text",
                "worker",
            ],
        ),
        ("tests", &["proto", "redact", "store"]),
    ] {
        let allowed: BTreeSet<_> = allowed.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(edges(folder), allowed, "{folder}");
    }
}

/// The dependencies of a manifest that cargo always builds, without those for tests and build scripts.
fn required_dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap().to_owned();
    let required = section.lines().skip(1).filter(|line| !line.is_empty() && !line.contains("optional = true"));
    required.filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned).collect()
}

#[test]
fn a_client_of_the_contract_gets_no_runtime_no_validator_and_no_telemetry() {
    let light = [
        "base64",
        "bytes",
        "hex",
        "memchr",
        "percent-encoding",
        "prost",
        "prost-types",
        "rand",
        "serde",
        "serde_json",
        "sha2",
        "time",
    ];
    assert_eq!(required_dependencies("proto"), light.iter().map(|it| (*it).to_owned()).collect());
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The files of a crate, by module.
fn sources(folder: &str) -> BTreeMap<Module, String> {
    let (src, mut found) = (repository().join(folder).join("src"), Vec::new());
    files(&src, &mut found);
    let read = |path: &PathBuf| (module_of(path.strip_prefix(&src).unwrap()), std::fs::read_to_string(path).unwrap());
    found.iter().map(read).collect()
}

fn all_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    CRATES.iter().for_each(|folder| files(&repository().join(folder).join("src"), &mut found));
    assert!(found.len() > 200, "{}", found.len());
    found
}

/// Production code of these files, by path below `folder`.
fn read_production(folder: &Path, paths: &[PathBuf]) -> BTreeMap<String, String> {
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        (name, production(&code(&std::fs::read_to_string(path).unwrap())))
    };
    paths.iter().map(read).collect()
}

/// Production code of the gateway, by its path below `gateway/src`.
fn gateway() -> BTreeMap<String, String> {
    let (src, mut found) = (repository().join("gateway/src"), Vec::new());
    files(&src, &mut found);
    let all = read_production(&src, &found).into_iter();
    all.filter(|(name, _)| !name.ends_with("tests.rs") && !name.contains("/tests/")).collect()
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    for folder in CRATES {
        let imports = Imports::of(&sources(folder));
        let circles = imports.circles();
        let explained: String = circles.iter().map(|circle| imports.explain(circle) + "\n").collect();
        assert!(circles.is_empty(), "{folder} has {} import circles:\n{explained}", circles.len());
    }
}

#[test]
fn an_import_circle_is_found() {
    let sources = |files: &[(&str, &str)]| -> BTreeMap<Module, String> {
        files.iter().map(|(path, text)| (module_of(Path::new(path)), (*text).to_owned())).collect()
    };
    let circle = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B;\nmod inner { use super::super::c::C; }"),
        ("b.rs", "fn f() -> crate::c::C { todo() }"),
        ("c.rs", "// use crate::b::B;\nuse {std::fmt, super::a};"),
    ];
    let circles = Imports::of(&sources(&circle)).circles();
    assert_eq!(circles, [["a", "b", "c"].map(|it| vec![it.to_owned()]).into()]);
    let parent = [("a.rs", "mod child;\nuse child::f;"), ("a/child.rs", "use super::X;\npub fn f() {}")];
    assert_eq!(Imports::of(&sources(&parent)).circles().len(), 1, "a child and its parent");
    let none = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B;\npub(in crate::b) fn f() { println!(\"crate::a\") }"),
        ("b.rs", "pub struct B; // crate::a::f()"),
    ];
    assert!(Imports::of(&sources(&none)).circles().is_empty());
}

#[test]
fn every_route_of_the_gateway_is_a_row_of_the_table_of_operations() {
    for (name, text) in gateway() {
        let is_table = name == "serve/operations.rs";
        assert_eq!(text.contains(".route("), is_table, "{name}: routes belong in serve/operations.rs");
    }
}

/// Production code of all crates, by its path.
fn production_code() -> BTreeMap<String, String> {
    let is_test = |name: &str| name.ends_with("tests.rs") || name.contains("/testing") || name.contains("/tests/");
    read_production(&repository(), &all_files()).into_iter().filter(|(name, _)| !is_test(name)).collect()
}

/// Words of the trade, which mean the same wherever a module defines them.
const COMMON_TYPES: [&str; 18] = [
    "Body", "Call", "Content", "Entry", "Index", "Key", "Kind", "Limits", "Line", "Message", "Policy", "Reader",
    "Request", "Rules", "Source", "State", "Store", "Tool",
];

#[test]
fn functions_parameters_and_types_say_what_they_are() {
    let sources = production_code();
    let types: BTreeMap<String, BTreeSet<String>> =
        sources.iter().map(|(name, text)| (name.clone(), names::types(text))).collect();
    let own: BTreeSet<String> = types.values().flatten().cloned().collect();
    for (file, text) in &sources {
        for function in names::functions(text) {
            let names::Function { name, parameters } = &function;
            assert!(name != "of" && !name.starts_with("of_"), "{file}: {name} does not say what it does");
            let tuples = names::tuples(parameters, &own);
            assert!(tuples.is_empty(), "{file}: {name} takes ({}): a struct or two parameters say more", tuples[0]);
        }
    }
    let mut repeated = names::repeated(&types);
    repeated.retain(|name, _| !COMMON_TYPES.contains(&name.as_str()));
    assert!(repeated.is_empty(), "types that share a name with too many others: {repeated:?}");
}

#[test]
fn names_that_say_nothing_are_found() {
    let text =
        "pub(crate) fn of(text: &str) {}\nfn take((a, b): (&Alpha, Beta), c: Vec<(Alpha, Beta)>) {}\nstruct Alpha;";
    let found: Vec<_> = names::functions(text).into_iter().map(|it| it.name).collect();
    assert_eq!(found, ["of", "take"]);
    let own = ["Alpha", "Beta"].map(str::to_owned).into();
    assert_eq!(names::tuples(&names::functions(text)[1].parameters, &own), ["&Alpha, Beta"]);
    assert_eq!(names::types(text), ["Alpha".to_owned()].into());
    let files = (0..4).map(|number| (format!("{number}.rs"), names::types(text))).collect();
    assert_eq!(names::repeated(&files).len(), 1);
}

#[test]
fn a_worker_has_one_set_of_python_environments() {
    let sources = production_code();
    let made: Vec<_> =
        sources.iter().filter(|(_, text)| text.contains("Environments::new(")).map(|(name, _)| name).collect();
    // Two would build twice as many at once as the limit says, and each would remove what only the other uses.
    assert_eq!(made, ["worker/src/lib.rs"]);
    assert_eq!(sources["worker/src/lib.rs"].matches("Environments::new(").count(), 1);
}

#[test]
fn only_the_faces_know_statuses_and_only_serve_knows_http() {
    for (name, text) in gateway() {
        // The workers' side of the wire is a client: it reads the statuses that workers send.
        let is_client = ["workers/client.rs", "workers/link.rs", "workers/discovery.rs"];
        if is_client.contains(&name.as_str()) {
            continue;
        }
        let knows = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let is_word = |it: char| it.is_alphanumeric() || it == '_';
        let knows_status = text.replace("Envelope::Status", "").split(|it| !is_word(it)).any(|word| word == "Status")
            || text.contains("tonic::Code");
        let is_face = name.starts_with("serve/faces");
        assert!(is_face || !knows_status, "{name} knows a gRPC status");
        // `workers/source.rs` checks that an address is one.
        let is_served = name.starts_with("serve") || name == "workers/source.rs";
        assert!(is_served || !knows(&["http::", "hyper::", "axum::", "StatusCode"]), "{name} knows HTTP");
    }
}

/// What a `Drop` of the gateway does. One that is not here is a new one: it may give back what it holds, and record nothing
/// but that a call was dropped.
const DROPS: [(&str, &str); 19] = [
    ("dispatch/attempt.rs", "Tracker"),        // records that a call was dropped
    ("dispatch/kept_run.rs", "KeptRun"),       // cancels the run that a worker would keep
    ("dispatch/lateness.rs", "RefusalWatch"),  // forgets a refusal when a call of its caller is cancelled
    ("dispatch/questions.rs", "OpenQuestion"), // closes a question
    ("export/forms.rs", "Cached"),             // gives its share of the cache back
    ("identity/usage.rs", "ActiveUsage"),      // gives back what a call used of its principal's limits
    ("long_running/run.rs", "HeldClaim"),      // a claim has no task any more
    ("mcp/clients.rs", "Cancellable"),         // forgets how to cancel a call
    ("mcp/replay.rs", "Reader"),               // a stream has no reader any more
    ("observe/call_record.rs", "CallRecord"),  // records that a call was dropped
    ("protect/admission.rs", "AdmissionSlot"),
    ("protect/circuit/guard.rs", "CircuitGuard"), // gives the passes back, without a verdict
    ("protect/idempotency.rs", "Lease"),
    ("protect/idempotency/stored_keys.rs", "StoredKey"), // a claim has no task any more
    ("protect/in_flight.rs", "ListedCall"),
    ("serve/connections/peers.rs", "PeerShare"),
    ("serve/connections/limiter.rs", "InFlight"),
    ("serve/connections/limiter.rs", "ConnectionPermit"),
    ("workers/worker.rs", "InFlight"),
];

#[test]
fn a_drop_records_nothing_but_that_a_call_was_dropped() {
    let mut found = BTreeSet::new();
    for (name, text) in gateway() {
        for part in text.split("Drop for ").skip(1) {
            let of: String = part.chars().take_while(|it| it.is_alphanumeric()).collect();
            found.insert((name.clone(), of));
        }
    }
    let known = DROPS.map(|(file, of)| (file.to_owned(), of.to_owned()));
    assert_eq!(found, known.into());
}

#[test]
fn the_story_of_a_call_fits_a_screen() {
    let text = std::fs::read_to_string(repository().join("gateway/src/invoke.rs")).unwrap();
    let story = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    let story = story.filter(|line| !line.starts_with("use ")).count();
    assert!(story < 70, "{story} lines");
}

#[test]
fn every_file_says_what_it_is_for_and_stays_within_a_few_screens() {
    for path in all_files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_tests = path.ends_with("tests.rs");
        assert!(is_tests || text.starts_with("//!"), "{} has no module documentation", path.display());
        let lines = production(&code(&text)).lines().filter(|line| !line.trim().is_empty()).count();
        assert!(lines <= 330, "{} has {lines} lines of code", path.display());
    }
}

#[test]
fn no_module_is_a_drawer_for_everything() {
    for path in all_files() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(!["common", "utils", "util", "helpers", "core", "misc", "mod"].contains(&name), "{}", path.display());
    }
}

#[test]
fn the_gateway_reads_no_environment_and_no_disk_on_a_call() {
    for (name, text) in gateway() {
        assert!(!text.contains("std::env::"), "{name}");
        // Sockets of workers are looked for in a folder, not on a call.
        let may_list_sockets = name == "workers/source.rs";
        // Public keys of issuers, read at intervals.
        let is_of_issuers = name == "identity/jwks.rs";
        // The recorder's thread, and whoever reads what it wrote.
        let is_recorder = name.starts_with("observe/recorder/");
        assert!(
            may_list_sockets
                || is_recorder
                || is_of_issuers
                || !(text.contains("std::fs::") || text.contains("tokio::fs::")),
            "{name}"
        );
    }
}
