use openskill_sandbox::jail::{Level, Network};

use super::*;

const MINIMAL: &str = "id: echo\ntype: cli\nruntime: python\nentry: echo.py\n";

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    parse_in(text, None)
}

fn parse_in(text: &str, toolset: Option<&Toolset>) -> Result<Manifest, ManifestError> {
    let rules = Rules { allowed_root: Path::new("/"), toolset };
    Manifest::parse(Path::new("/skills/echo.yaml"), text, rules)
}

#[test]
fn a_minimal_manifest_gets_safe_defaults() {
    let manifest = parse(MINIMAL).unwrap();
    assert_eq!(manifest.runner, "cli:python");
    assert_eq!(manifest.how.files(), [Path::new("/skills/echo.py")]);
    assert!(!manifest.idempotent && !manifest.destructive);
    assert_eq!(manifest.version, "0.0.0");
}

#[test]
fn a_manifest_says_how_agents_treat_its_skill() {
    let default = parse(MINIMAL).unwrap();
    assert_eq!(default.tool_hints, ToolHints::default());
    assert!(!default.tool_hints.asks(default.destructive));
    assert!(parse(&format!("{MINIMAL}destructive: true\n")).unwrap().tool_hints.asks(true));
    let said = format!("{MINIMAL}approval: ask\nrepeatable: true\nuntrusted: true\nread_only: true\n");
    let expected = ToolHints { approval: Some(Approval::Ask), repeatable: true, untrusted: true, read_only: true };
    assert_eq!(parse(&said).unwrap().tool_hints, expected);
    let web = parse("id: web\ntype: http\nentry: http://127.0.0.1:1/\n").unwrap();
    assert!(web.tool_hints.untrusted, "who answers is a stranger");
    let server = parse("id: server\ntype: mcp\nruntime: stdio\nentry: server\n").unwrap();
    let program = parse("id: tool\ntype: cli\nruntime: exec\nentry: /bin/true\n").unwrap();
    assert!(server.tool_hints.untrusted && !program.tool_hints.untrusted);
    let said =
        "id: web\ntype: http\nentry: http://127.0.0.1:1/\napproval: never\nuntrusted: false\ndestructive: true\n";
    let said = parse(said).unwrap().tool_hints;
    assert!(!said.asks(true) && !said.untrusted);
}

#[test]
fn a_manifest_may_be_json() {
    let manifest = parse(r#"{"id": "echo", "type": "cli", "runtime": "python", "entry": "echo.py"}"#).unwrap();
    assert_eq!(manifest, parse(MINIMAL).unwrap());
}

#[test]
fn the_short_form_becomes_a_schema() {
    let text = format!(
        "{MINIMAL}parameters:\n  task: {{type: string, required: true}}\n  steps: {{type: integer, default: 50}}\n"
    );
    let schema = parse(&text).unwrap().input_schema.unwrap();
    assert_eq!(schema["required"], serde_json::json!(["task"]));
    assert_eq!(schema["properties"]["steps"], serde_json::json!({"type": "integer", "default": 50}));
    assert_eq!(schema["additionalProperties"], false);
    assert!(parse(&text.replace("default: 50", "default: null")).is_ok(), "generated schemas say so");
}

#[test]
fn each_mistake_is_reported_with_its_line_and_a_reason() {
    for (text, line, word) in [
        (format!("{MINIMAL}colour: red\n"), 5, "colour"),
        (format!("{MINIMAL}timeout_ms: soon\n"), 5, "u32"),
        (format!("{MINIMAL}timeout_ms: 0\n"), 5, "1 to"),
        (format!("{MINIMAL}circuit: {{failure_rate: 2}}\n"), 5, "at most 1"),
        (format!("{MINIMAL}circuit: {{window_s: 0}}\n"), 5, "1 to 86400"),
        (format!("{MINIMAL}circuit: {{treshold: 5}}\n"), 5, "treshold"),
        (MINIMAL.replace("echo.py", "../echo.py"), 4, "'..'"),
        (MINIMAL.replace("echo.py", "/etc/passwd"), 4, "relative"),
        (MINIMAL.replace("id: echo", "id: Echo!"), 1, "skill id"),
        (format!("{MINIMAL}concurrency: 9223372036854775807\n"), 5, "1 to 10000"),
        (format!("{MINIMAL}description: \"{}\"\n", "x".repeat(20_000)), 5, "16384"),
        (format!("{MINIMAL}version: 1.0@beta\n"), 5, "0-9 A-Z a-z . + -"),
        (format!("{MINIMAL}version: ''\n"), 5, "1 to 128"),
        (format!("{MINIMAL}version: {}\n", "1".repeat(129)), 5, "1 to 128"),
        (format!("{MINIMAL}parameters:\n  task: {{type: string}}\n  size: {{type: strng}}\n"), 7, "strng"),
        (format!("{MINIMAL}parameters:\n  task: {{type: string, requird: true}}\n"), 6, "requird"),
        (
            format!("{MINIMAL}parameters:\n  a: {{}}\n  size: {{type: integer, default: many}}\n"),
            7,
            "default of 'size'",
        ),
        (format!("{MINIMAL}env: [PATH]\n"), 5, "PATH"),
        (format!("{MINIMAL}env: [OPENSKILL_ALLOWED_ROOT]\n"), 5, "OPENSKILL_ALLOWED_ROOT"),
        (format!("{MINIMAL}input_schema: {{type: array}}\n"), 5, "object"),
        (format!("{MINIMAL}input_schema: {{type: object, properties: 5}}\n"), 5, "JSON Schema"),
        (format!("{MINIMAL}input_schema: {{type: object, $ref: 'http://example.com/s'}}\n"), 5, "points outside"),
        (
            format!("{MINIMAL}input_schema: {{type: object, properties: {{a: {{pattern: '(?=a)'}}}}}}\n"),
            5,
            "look-around",
        ),
        (format!("{MINIMAL}parameters:\n  a: {{aliases: [x]}}\n  b: {{aliases: [x]}}\n"), 7, "given twice"),
        (format!("{MINIMAL}parameters:\n  a: {{}}\narguments: {{aliases: {{b: c}}}}\n"), 7, "not a parameter"),
        (format!("{MINIMAL}parameters:\n  a: {{}}\n  b: {{}}\narguments: {{aliases: {{b: a}}}}\n"), 8, "itself"),
        (format!("{MINIMAL}arguments: {{policy: lax}}\n"), 5, "lax"),
        (format!("{MINIMAL}approval: always\n"), 5, "always"),
        (format!("{MINIMAL}untrusted: maybe\n"), 5, "bool"),
        (format!("{MINIMAL}destructive: true\nread_only: true\n"), 6, "cannot be both"),
        ("id: echo\nentry: echo.py\n".to_owned(), 1, "type"),
        (format!("{MINIMAL}examples: [{{name: x, error: NO_SUCH}}]\n"), 5, "NO_SUCH"),
        ("id: [unclosed\n".to_owned(), 1, ""),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.reason.contains(word), "{text}\n{error}");
        if !word.is_empty() {
            assert_eq!(error.line, line, "{text}\n{error}");
        }
    }
}

#[test]
fn a_root_outside_the_workers_is_refused() {
    let rules = Rules { allowed_root: Path::new("/usr/bin"), toolset: None };
    let file = Path::new("/skills/echo.yaml");
    let error = Manifest::parse(file, &format!("{MINIMAL}allowed_root: /etc\n"), rules).unwrap_err();
    assert!(error.reason.contains("outside"), "{error}");
}

#[test]
fn a_script_without_a_manifest_is_served_without_a_schema() {
    let manifest = Manifest::for_bare_script(Path::new("/skills/hello.py")).unwrap();
    assert_eq!((manifest.id.as_str(), manifest.input_schema), ("hello", None));
    assert!(Manifest::for_bare_script(Path::new("/skills/Not An Id.py")).is_err());
}

#[test]
fn yaml_1_1_booleans_are_texts() {
    let text = format!(
        "{MINIMAL}input_schema: {{type: object, required: [n], properties: {{n: {{enum: [on, off, yes]}}}}}}\n"
    );
    let schema = parse(&text).unwrap().input_schema.unwrap();
    assert_eq!(schema["properties"]["n"]["enum"], serde_json::json!(["on", "off", "yes"]));
    assert_eq!(schema["required"], serde_json::json!(["n"]));
}

#[test]
fn yaml_aliases_cannot_expand_past_the_bound() {
    let mut text = format!("{MINIMAL}examples:\n  - name: x\n    input:\n      a: &a [{}]\n", "1,".repeat(500));
    for (name, of) in [("b", "a"), ("c", "b")] {
        text += &format!("      {name}: &{name} [{}]\n", format!("*{of},").repeat(20));
    }
    let error = parse(&text).unwrap_err();
    assert!(error.reason.contains("131072"), "{error}");
}

#[test]
fn a_jail_has_the_strictest_defaults_and_only_absolute_paths() {
    assert_eq!(parse(MINIMAL).unwrap().jail, Jail { level: Level::Auto, network: Network::None, readable: Vec::new() });
    let jail = parse(&format!("{MINIMAL}jail: required\nnetwork: [443]\nreadable: [/opt/x]\n")).unwrap().jail;
    let readable = vec![PathBuf::from("/opt/x")];
    assert_eq!(jail, Jail { level: Level::Standard, network: Network::Connect(vec![443]), readable });
    assert_eq!(parse(&format!("{MINIMAL}jail: off\n")).unwrap().jail.level, Level::Off);
    for kind in ["inproc\nentry: echo", "http\nentry: http://127.0.0.1:1/"] {
        let text = format!("id: x\ntype: {kind}\njail: strict\n");
        assert!(parse(&text).unwrap_err().reason.contains("a jail applies only to processes"), "{text}");
    }
    for bad in ["readable: [data]", "readable: [/]", "network: []", "network: [0]", "network: some", "jail: none"] {
        assert_eq!(parse(&format!("{MINIMAL}{bad}\n")).unwrap_err().line, 5, "{bad}");
    }
}

#[test]
fn code_of_sessions_gets_a_strict_jail_and_nothing_less() {
    let session = "id: run\ntype: session\nruntime: python\nentry: execute\n";
    for allowed in ["", "jail: strict\n"] {
        assert_eq!(parse(&format!("{session}{allowed}")).unwrap().jail.level, Level::Strict, "{allowed}");
    }
    for less in ["off", "auto", "standard", "required"] {
        let error = parse(&format!("{session}jail: {less}\n")).unwrap_err();
        assert!(error.line == 5 && error.reason.contains("strict"), "{error}");
    }
}

#[test]
fn a_skill_shares_state_with_its_toolset_and_not_with_a_skill_of_that_name() {
    let group = |text: &str| parse(&MINIMAL.replace("id: echo\n", text)).unwrap().group();
    assert_eq!(group("id: echo\ntoolset: box\n"), group("id: other\ntoolset: box\n"));
    assert_ne!(group("id: box\n"), group("id: echo\ntoolset: box\n"));
    assert_ne!(group("id: box\n"), group("id: echo\n"));
}
