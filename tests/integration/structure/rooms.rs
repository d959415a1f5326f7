//! Rooms: the top-level modules of a crate, and which of them each may import from.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Imports, Module, ROOT};
use super::sources;

/// The rooms of a crate.
pub(super) struct Rooms {
    /// The folder of the crate.
    folder: &'static str,
    /// Each room, and the rooms that it may import from. They come later in the list.
    order: &'static [(&'static str, &'static [&'static str])],
    /// Rooms that every room may import from, and that import from no other than each other.
    open: &'static [&'static str],
    /// Modules that put the rooms together, such as the state of them all.
    above: &'static [&'static str],
}

/// In the order of a call. `gateway` is the state of all rooms.
pub(super) const GATEWAY: Rooms = Rooms {
    folder: "gateway",
    order: &[
        ("agent", &["serve", "streams", "prepare", "invoke", "dispatch", "observe", "call", "gateway"]),
        (
            "serve",
            &[
                "long_running",
                "streams",
                "prepare",
                "invoke",
                "tools",
                "protect",
                "dispatch",
                "catalog",
                "observe",
                "mcp",
                "call",
                "identity",
                "gateway",
            ],
        ),
        ("shared_counts", &["protect", "identity", "gateway"]),
        ("long_running", &["streams", "prepare", "protect", "dispatch", "observe", "call", "gateway"]),
        ("streams", &["invoke", "protect", "observe", "call", "gateway"]),
        ("invoke", &["prepare", "tools", "protect", "dispatch", "catalog", "observe", "call", "gateway"]),
        ("prepare", &["catalog", "observe", "call", "gateway"]),
        ("tools", &["protect", "dispatch", "catalog", "call", "gateway"]),
        ("protect", &["dispatch", "observe", "call", "identity"]),
        ("dispatch", &["catalog", "workers", "observe", "call", "gateway"]),
        ("catalog", &["workers", "call", "identity"]),
        ("workers", &["gateway"]),
        ("observe", &["call"]),
        ("mcp", &["call"]),
        ("call", &["identity"]),
        ("identity", &[]),
    ],
    open: &["arguments", "export", "state"],
    above: &["config", "gateway"],
};

/// Commands and listeners, then the way of a call: registry, runners, sessions. `tools` comes before the runners: it starts
/// what it installs.
pub(super) const WORKER: Rooms = Rooms {
    folder: "worker",
    order: &[
        ("operator", &["check", "worker", "tools", "registry", "runners", "events", ROOT]),
        ("doctor", &["check", "worker", "registry", "runners", "sessions", ROOT]),
        ("local_call", &["check", "execute", "registry"]),
        ("check", &["execute", "worker", "registry", "runners", "sessions", ROOT]),
        ("shards", &["server", "worker"]),
        ("server", &["execute", "worker", "kept_runs", "questions"]),
        ("scrape", &["worker"]),
        (
            "execute",
            &["worker", "registry", "normalize", "runner", "events", "artifacts", "questions", "schedule", "spans"],
        ),
        (
            "worker",
            &["tools", "registry", "kept_runs", "skill_jailer", "metrics", "artifacts", "questions", "schedule"],
        ),
        ("tools", &["runners", "runner", "events", "skill_names"]),
        ("registry", &["runners", "offerings", "schedule", "skill_names"]),
        (
            "runners",
            &[
                "normalize",
                "skill_jailer",
                "environment",
                "runner",
                "sessions",
                "events",
                "questions",
                "schedule",
                "spans",
            ],
        ),
        ("normalize", &["runner"]),
        ("skill_jailer", &["environment"]),
        ("environment", &["runner"]),
        ("runner", &["events", "schedule", "spans"]),
        ("sessions", &["events", "schedule"]),
        ("events", &["artifacts", "questions"]),
        ("kept_runs", &[]),
        ("metrics", &[]),
        ("offerings", &[]),
        ("skill_names", &[]),
        ("artifacts", &[]),
        ("questions", &[]),
        ("schedule", &[]),
        ("spans", &[]),
    ],
    open: &["config", "embedded", "manifest", "sdk", "shipped"],
    above: &[],
};

/// Faces, conversations, turns, then what a turn reads and writes.
const AGENT: Rooms = Rooms {
    folder: "crates/agent",
    order: &[
        ("faces", &["hosted", "agent", "skills", "event"]),
        ("hosted", &["agent", "delegation", "skills"]),
        (
            "agent",
            &[
                "delegates",
                "reservation",
                "turn",
                "feed",
                "input",
                "locks",
                "delegation",
                "journal",
                "secrets",
                "skills",
            ],
        ),
        ("delegates", &["turn", "delegation", "journal", "skills"]),
        ("reservation", &["turn"]),
        (
            "turn",
            &["concealment", "secret_tail", "delegation", "journal", "event", "router", "context", "secrets", "skills"],
        ),
        ("feed", &["journal"]),
        ("concealment", &["secrets"]),
        ("secret_tail", &["secrets"]),
        ("delegation", &["skills"]),
        ("journal", &["event"]),
        ("event", &["context"]),
        ("context", &[]),
        ("remote", &["skills"]),
        ("skills", &[]),
        ("router", &[]),
        ("input", &[]),
        ("locks", &[]),
        ("secrets", &[]),
    ],
    open: &["config", "entry", "error"],
    above: &[],
};

impl Rooms {
    fn place(&self, room: &str) -> Option<usize> {
        self.order.iter().position(|(it, _)| *it == room)
    }

    /// The rooms in the order of a call, and from which later ones each imports.
    pub(super) fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let sources = sources(self.folder);
        let imports = Imports::of(&sources);
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for module in sources.keys().filter(|it| it.first().is_some_and(|room| self.place(room).is_some())) {
            let targets = imports.targets(&module.join("::")).into_iter();
            let rooms = targets.filter_map(|it| it.split("::").next().map(str::to_owned));
            let others = rooms.filter(|it| *it != module[0] && self.place(it).is_some());
            found.entry(module[0].clone()).or_default().extend(others);
        }
        found
    }

    /// The imports that the order forbids, and rooms that it does not name.
    fn violations(&self, sources: &BTreeMap<Module, String>) -> Vec<String> {
        let mut found = Vec::new();
        for (room, allowed) in self.order {
            let is_later = |it: &&str| *it == ROOT || self.above.contains(it) || self.place(it) > self.place(room);
            if !allowed.iter().all(is_later) {
                found.push(format!("{room}: the order is a circle"));
            }
        }
        let imports = Imports::of(sources);
        let is_test = |module: &Module| module.iter().any(|it| it == "tests");
        let listed = self.order.iter().map(|(room, _)| *room).chain(self.open.iter().chain(self.above).copied());
        for room in listed.filter(|it| !sources.contains_key(&vec![(*it).to_owned()])) {
            found.push(format!("{room} has no source"));
        }
        for module in sources.keys().filter(|it| !it.is_empty() && !is_test(it)) {
            let (room, module) = (module[0].as_str(), module.join("::"));
            if self.above.contains(&room) {
                continue;
            }
            let allowed = match self.place(room) {
                Some(place) => self.order[place].1,
                None if self.open.contains(&room) => &[],
                None => {
                    found.push(format!("{room} is no room"));
                    continue;
                }
            };
            for target in imports.targets(&module) {
                let other = target.split("::").next().unwrap_or_default();
                if other != room && !self.open.contains(&other) && !allowed.contains(&other) {
                    found.push(format!("{module} imports from {target}"));
                }
            }
        }
        found
    }
}

#[test]
fn rooms_import_only_from_the_rooms_after_them() {
    for rooms in [GATEWAY, WORKER, AGENT] {
        let violations = rooms.violations(&sources(rooms.folder));
        assert!(violations.is_empty(), "{}:\n{}", rooms.folder, violations.join("\n"));
    }
}

#[test]
fn an_import_against_the_order_of_rooms_is_found() {
    let sources = |files: &[(&str, &str)]| -> BTreeMap<Module, String> {
        let module = |path: &str| path.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect()
    };
    let rooms = Rooms { folder: "", order: &[("a", &["b"]), ("b", &[]), ("c", &[])], open: &["pure"], above: &["all"] };
    let fine = [
        ("", "mod a; mod b; mod c; mod pure; mod all;"),
        ("a", "mod part;\nuse crate::b::B;\nuse crate::pure::P;"),
        ("a::part", "use crate::b::B;"),
        ("b", "pub struct B;"),
        ("c", "pub struct C;"),
        ("pure", "pub struct P;"),
        ("all", "use crate::{a, b, c};"),
    ];
    assert_eq!(rooms.violations(&sources(&fine)), [""; 0]);
    for (module, text, expected) in [
        ("b", "use crate::a::A;", "b imports from a"),
        ("a::part", "fn f() -> crate::c::C { todo() }", "a::part imports from c"),
        ("pure", "use crate::b::B;", "pure imports from b"),
        ("d", "", "d is no room"),
    ] {
        let mut planted = sources(&fine);
        planted.insert(module.split("::").map(str::to_owned).collect(), text.to_owned());
        assert_eq!(rooms.violations(&planted), [expected]);
    }
    let circle = Rooms { order: &[("a", &["b"]), ("b", &["a"]), ("c", &[])], ..rooms };
    assert_eq!(circle.violations(&sources(&fine)), ["b: the order is a circle"]);
}
