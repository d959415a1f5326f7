use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let top = std::env::temp_dir().join(format!("openskill-search-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        std::fs::create_dir_all(&top).unwrap();
        Self(top)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn try_search(&self, input: Value, helpers: usize, deadline: Instant) -> Result<FunctionOutput, SkillError> {
        let arguments = SearchArguments::read(input.to_string().as_bytes())?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        let root = rustix::fs::open(&self.0, flags, rustix::fs::Mode::empty()).unwrap();
        let paths = PathView::new(PathBuf::from("data"));
        let path = paths.below("file_path", &arguments.file_path)?;
        let (stop, _stop_on_drop) = StopSignal::at(deadline);
        let query = Query::new(&arguments)?;
        let helpers = Arc::new(Semaphore::new(helpers));
        Search { root: Arc::new(root), paths, path, arguments, query, stop, helpers }.run()
    }

    fn search(&self, input: Value) -> (Value, bool) {
        let mut answers = [0, 3].map(|helpers| {
            let report = self.try_search(input.clone(), helpers, Instant::now() + Duration::from_secs(60)).unwrap();
            (serde_json::from_str(&report.data).unwrap(), report.truncated)
        });
        assert_eq!(answers[0], answers[1], "however many threads there are");
        std::mem::take(&mut answers[0])
    }

    fn error(&self, input: Value) -> SkillError {
        self.try_search(input, 0, Instant::now() + Duration::from_secs(60)).err().unwrap()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_match_has_its_place_its_text_and_its_context() {
    let top = TempFolder::new("one");
    top.write("a.py", "import os\n\ndef one():\r\n    pass\ndef two(): pass\n");
    let (found, truncated) = top.search(json!({"file_path": "data/a.py", "regex_pattern": r"\w+\(", "context": 1}));
    let expected = json!([
        {"path": "data/a.py", "line": 3, "column": 5, "match": "one(", "text": "def one():", "before": [""], "after": ["    pass"]},
        {"path": "data/a.py", "line": 5, "column": 5, "match": "two(", "text": "def two(): pass"},
    ]);
    assert_eq!((&found["matches"], truncated), (&expected, false));
    assert_eq!(found["stats"]["files_searched"], 1);
    assert_eq!(top.search(json!({"file_path": "a.py", "regex_pattern": "DEF"})).0["matches"], json!([]));
    let (found, _) = top.search(json!({"file_path": "a.py", "regex_pattern": "DEF", "ignore_case": true}));
    assert_eq!(found["matches"].as_array().unwrap().len(), 2);
}

#[test]
fn a_line_ends_where_its_text_ends_however_it_is_terminated() {
    let top = TempFolder::new("ends");
    top.write("a", "the end\r\nthe end\nend of\r\n\r\nthe end");
    let expected: [(&str, &[u64]); 6] = [
        ("end$", &[1, 2, 5]),
        ("^the end$", &[1, 2, 5]),
        ("^$", &[4]),
        ("^end", &[3]),
        (r"\r$", &[1, 3, 4]),
        (r"end\r?$", &[1, 2, 5]),
    ];
    for (pattern, lines) in expected {
        let (found, _) = top.search(json!({"file_path": "a", "regex_pattern": pattern}));
        let matches = found["matches"].as_array().unwrap();
        let found: Vec<_> = matches.iter().map(|it| it["line"].as_u64().unwrap()).collect();
        assert_eq!(found, lines, "{pattern}");
    }
}

#[test]
fn encodings_are_read_and_binaries_are_said() {
    let top = TempFolder::new("bytes");
    let utf16 = |text: &str, big: bool| -> Vec<u8> {
        let units = std::iter::once(0xFEFF).chain(text.encode_utf16());
        units.flat_map(|it| if big { it.to_be_bytes() } else { it.to_le_bytes() }).collect()
    };
    top.write("le.txt", utf16("first\nzweite 你好\n", false));
    top.write("be.txt", utf16("first\nzweite 你好\n", true));
    for name in ["le.txt", "be.txt"] {
        let (found, _) = top.search(json!({"file_path": name, "regex_pattern": "你好"}));
        assert_eq!(
            (&found["matches"][0]["line"], &found["matches"][0]["match"]),
            (&json!(2), &json!("你好")),
            "{found}"
        );
    }
    top.write("invalid.txt", b"caf\xe9 one\n\xff\xfe\xfa two\n");
    let (found, _) = top.search(json!({"file_path": "invalid.txt", "regex_pattern": "two"}));
    assert_eq!((&found["matches"][0]["line"], &found["matches"][0]["column"]), (&json!(2), &json!(5)), "{found}");
    top.write("bin", b"needle one\n\0needle two\n");
    let (found, _) = top.search(json!({"file_path": "bin", "regex_pattern": "needle"}));
    assert_eq!(found["left_out"][0]["reason"], "binary", "{found}");
    assert!(found["left_out"][0]["message"].as_str().unwrap().contains("byte 11"), "{found}");
}

#[test]
fn an_answer_is_bounded_and_says_so() {
    let top = TempFolder::new("bounds");
    for file in 0..40 {
        top.write(&format!("f{file:02}"), "x hit\n".repeat(10));
    }
    let (found, truncated) = top.search(json!({"file_path": "data", "regex_pattern": "hit", "max_matches": 25}));
    assert_eq!(found["matches"].as_array().unwrap().len(), 25);
    assert_eq!((&found["truncated_by"], truncated), (&json!("max_matches"), true));
    assert_eq!((&found["matches"][24]["path"], &found["matches"][24]["line"]), (&json!("data/f02"), &json!(5)));
    let (found, truncated) = top.search(json!({"file_path": ".", "regex_pattern": "hit", "max_matches": 400}));
    assert_eq!((found["matches"].as_array().unwrap().len(), truncated), (400, false), "all of them");
    top.write("wide", format!("{}\n", "hit ".repeat(100)).repeat(1000));
    let query = json!({"file_path": "wide", "regex_pattern": "hit", "max_matches": 1000, "context": 2});
    let (found, _) = top.search(query);
    assert_eq!(found["truncated_by"], "answer_bytes");
    assert!(found.to_string().len() < 400_000);
}

#[test]
fn a_giant_line_ends_the_search_of_its_file_alone() {
    let top = TempFolder::new("giant");
    let mut file = std::fs::File::create(top.0.join("a")).unwrap();
    file.write_all(b"needle\n").unwrap();
    for _ in 0..50 {
        file.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    top.write("b", "needle\n");
    let (found, _) = top.search(json!({"file_path": "data", "regex_pattern": "needle"}));
    assert_eq!(found["matches"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(
        (&found["left_out"][0]["path"], &found["left_out"][0]["reason"]),
        (&json!("data/a"), &json!("line_too_long"))
    );
    assert!(found["stats"]["bytes_searched"].as_u64().unwrap() < 20 << 20, "{found}");
    top.write("long", format!("{}needle{}\n", "a".repeat(100_000), "b".repeat(100_000)));
    let (found, _) = top.search(json!({"file_path": "long", "regex_pattern": "needle"}));
    let it = &found["matches"][0];
    assert!(it["text"].as_str().unwrap().contains("needle") && it["text"].as_str().unwrap().len() <= 500, "{it}");
    assert_eq!((&it["column"], it["text_column"].as_u64().unwrap() > 90_000), (&json!(100_001), true));
}

#[test]
fn a_large_pattern_searches_shorter_lines_since_nothing_can_interrupt_it() {
    let top = TempFolder::new("states");
    top.write("a", format!("{}needle\n", "a".repeat(1 << 20)));
    assert_eq!(top.search(json!({"file_path": "a", "regex_pattern": "needle"})).0["matches"][0]["line"], 1);
    let (found, _) = top.search(json!({"file_path": "a", "regex_pattern": "[a-m][ -~]{3000}[^ -~]"}));
    assert_eq!((&found["matches"], &found["left_out"][0]["reason"]), (&json!([]), &json!("line_too_long")), "{found}");
}

#[test]
fn a_search_reads_no_further_than_one_match_more_than_it_returns() {
    let top = TempFolder::new("bound");
    top.write("a", format!("needle\nneedle\n{}", "x\n".repeat(4 << 20)));
    let (found, truncated) = top.search(json!({"file_path": "a", "regex_pattern": "needle", "max_matches": 1}));
    assert_eq!((found["matches"].as_array().unwrap().len(), truncated), (1, true));
    assert!(found["stats"]["bytes_searched"].as_u64().unwrap() < 1 << 20, "{found}");
}

#[test]
fn a_pattern_that_is_none_is_told_what_is_wrong() {
    let top = TempFolder::new("patterns");
    top.write("a", "");
    for (pattern, word) in [
        ("(", "unclosed group"),
        ("a{9999}{9999}", "size limit"),
        (r"(a)\1", "backreference"),
        (r"a\nb", "not allowed"),
    ] {
        let error = top.error(json!({"file_path": "a", "regex_pattern": pattern}));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{pattern}");
        assert!(error.message.contains(word), "{pattern}: {}", error.message);
    }
    let deep = format!("{}a{}", "(".repeat(2000), ")".repeat(2000));
    assert!(top.error(json!({"file_path": "a", "regex_pattern": deep})).message.contains("nest"));
}

#[test]
fn what_is_no_plain_file_is_refused_with_its_kind() {
    let top = TempFolder::new("refused");
    std::os::unix::fs::symlink("/etc/passwd", top.0.join("link")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, top.0.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (path, code, word) in [
        ("link", ErrorCode::ForbiddenPath, "symbolic link"),
        ("pipe", ErrorCode::InvalidArgument, "named pipe"),
        ("nothing", ErrorCode::NotFound, "does not exist"),
        ("../up", ErrorCode::ForbiddenPath, "'..'"),
    ] {
        let error = top.error(json!({"file_path": path, "regex_pattern": "a"}));
        assert_eq!(error.code(), code, "{path}: {}", error.message);
        assert!(error.message.contains(word), "{path}: {}", error.message);
    }
}

#[test]
fn a_search_ends_at_its_deadline() {
    let top = TempFolder::new("deadline");
    top.write("a", "x\n");
    for path in ["a", "data"] {
        let late = top.try_search(json!({"file_path": path, "regex_pattern": "x"}), 1, Instant::now());
        assert_eq!(late.err().unwrap().code(), ErrorCode::Timeout);
    }
}
