use super::*;

fn judge(stdout: impl AsRef<[u8]>, exit: i32) -> ExecuteResult {
    let raw = RawOutput::from_process(stdout.as_ref().to_vec(), b"secret\n".to_vec(), Exit::Code(exit), 0);
    normalize(raw, NormalizeOptions::default())
}

fn data(result: &ExecuteResult) -> &str {
    assert!(result.success, "{result:?}");
    assert!(result.error.is_none());
    std::str::from_utf8(&result.data_json).unwrap()
}

fn error(result: &ExecuteResult) -> (ErrorCode, &str) {
    assert!(!result.success && result.data_json.is_empty(), "{result:?}");
    let error = result.error.as_ref().unwrap();
    (error.code(), &error.message)
}

#[test]
fn a_bare_value_becomes_the_data_unchanged() {
    for value in [r#"{"a": 12345678901234567890123}"#, "[1,2]", "null", "\"text\"", "1.0"] {
        assert_eq!(data(&judge(format!("\n{value}\n"), 0)), value);
        assert_eq!(data(&judge(format!("\u{feff}{value}\r\n"), 0)), value);
    }
}

#[test]
fn a_report_gives_its_data_text_and_meta_but_not_its_ids() {
    let result = judge(
        r#"{"success": true, "skill_id": "forged", "trace_id": "forged", "data": {"x": 1}, "text": "done",
            "meta": {"version": "9.9", "truncated": true}}"#,
        0,
    );
    assert_eq!(data(&result), r#"{"x": 1}"#);
    assert_eq!((result.text.as_str(), result.version.as_str(), result.truncated), ("done", "9.9", true));
    assert!(!format!("{result:?}").contains("forged"));
}

#[test]
fn a_value_with_a_text_keeps_both_within_bounds() {
    let report = |data: &str| {
        let (data, text) = (data.to_owned(), "é".repeat(4096));
        normalize(RawOutput::Report { data, text, truncated: true }, NormalizeOptions::default())
    };
    let result = report("[1]");
    assert_eq!((data(&result), result.text.len()), ("[1]", MAX_TEXT_BYTES));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(error(&report(&deep)).0, ErrorCode::ExecutionError);
    assert_eq!(report(&deep).text, "");
}

#[test]
fn a_reported_error_keeps_its_code_and_details() {
    let result = judge(
        r#"{"success": false, "error": {"code": "FORBIDDEN_PATH", "message": "no", "details": {"field": "p"}}}"#,
        1,
    );
    assert_eq!(error(&result), (ErrorCode::ForbiddenPath, "no"));
    assert_eq!(result.error.unwrap().more, Some(More::DetailsJson(r#"{"field": "p"}"#.to_owned())));
}

#[test]
fn a_reserved_error_code_is_replaced_with_a_warning() {
    for code in ["\"OVERLOADED\"", "\"E42\"", "42"] {
        let result = judge(format!(r#"{{"success": false, "error": {{"code": {code}, "message": "no"}}}}"#), 1);
        assert_eq!(error(&result), (ErrorCode::ExecutionError, "no"));
        assert_eq!(result.warnings.len(), 1);
    }
    let result = judge(r#"{"success": false, "error": {"code": 1, "message": "no"}}"#, 1);
    assert_eq!(error(&result), (ErrorCode::InvalidArgument, "no"));
}

#[test]
fn exit_codes_mean_what_the_contract_says() {
    for (exit, code) in [
        (1, ErrorCode::InvalidArgument),
        (2, ErrorCode::InvalidJson),
        (3, ErrorCode::Internal),
        (77, ErrorCode::ExecutionError),
    ] {
        assert_eq!(error(&judge(r#"{"x": 1}"#, exit)).0, code);
    }
}

#[test]
fn a_success_with_a_failing_exit_code_is_a_failure() {
    assert_eq!(error(&judge(r#"{"success": true, "data": 1}"#, 1)).0, ErrorCode::ExecutionError);
}

#[test]
fn output_that_is_not_one_json_value_is_refused_with_the_reason() {
    for (stdout, word) in [
        (&b""[..], "nothing"),
        (b"  \n", "nothing"),
        (b"{} {}", "more than one"),
        (b"{}\nDone.", "more than one"),
        (b"{\"a\": 1", "not valid JSON"),
        (b"{\"a\": NaN}", "not valid JSON"),
        (b"\xff\xfe", "UTF-8"),
        (&[b'['; 2000], "deeper"),
    ] {
        let result = judge(stdout, 0);
        let (code, message) = error(&result);
        assert_eq!(code, ErrorCode::ExecutionError);
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn what_is_printed_beside_the_result_is_shown_with_its_line() {
    let hint = "; stdout is the result: print everything else to stderr";
    for (stdout, said) in [
        ("loading\n{\"a\": 1}", "; line 1 of stdout is 'loading'"),
        ("{\"a\": 1}\n\n  Done.\n", "; line 3 of stdout is '  Done.'"),
        ("{'a': 1}", "; line 1 of stdout is '{'a': 1}'"),
        ("{\n\"a\": None}", "; line 2 of stdout is '\"a\": None}'"),
        ("got token=hunter2 \u{1b}[31m", "; line 1 of stdout is 'got token=*** \u{fffd}[31m'"),
    ] {
        let result = judge(stdout, 0);
        assert!(error(&result).1.ends_with(&format!("(exit code 0){said}{hint}")), "{result:?}");
    }
    let result = judge("é".repeat(1000), 0);
    assert!(error(&result).1.len() < 400, "{result:?}");
    for stdout in [b"\xff".to_vec(), vec![b'['; 2000], b"{\"a\": 1, \"a\": 2}".to_vec()] {
        assert!(!error(&judge(stdout, 0)).1.contains("stderr"));
    }
    let (stdout, stderr) =
        (b"loading\n".to_vec(), b"Traceback (most recent call last):\n  x\nKeyError: 'a'\n".to_vec());
    let raw = RawOutput::from_process(stdout, stderr, Exit::Code(1), 0);
    let result = normalize(raw, NormalizeOptions::default());
    assert!(error(&result).1.contains("(exit code 1): KeyError: 'a'; line 1 of stdout is 'loading'"), "{result:?}");
}

#[test]
fn what_a_call_with_secrets_prints_is_not_quoted() {
    let raw = RawOutput::from_process(b"{}\nhunter2\n".to_vec(), vec![], Exit::Code(0), 0);
    let result = normalize(raw, NormalizeOptions { has_secrets: true, ..NormalizeOptions::default() });
    assert!(error(&result).1.contains("; line 2 of stdout is not part of it; "), "{result:?}");
    assert!(!error(&result).1.contains("hunter2"), "{result:?}");
}

#[test]
fn a_traceback_blames_the_skill_and_stays_in_the_log() {
    let result = judge("", 1);
    assert_eq!(error(&result).0, ErrorCode::ExecutionError);
    assert!(!format!("{result:?}").contains("secret"));
}

#[test]
fn a_leftover_process_makes_a_success_a_failure() {
    let raw = RawOutput::from_process(b"{}".to_vec(), vec![], Exit::Code(0), 2);
    let result = normalize(raw, NormalizeOptions { with_stderr: true, ..NormalizeOptions::default() });
    assert!(error(&result).1.contains("2 process"));
}

#[test]
fn a_failure_with_a_malformed_field_stays_a_failure() {
    for (stdout, code, message) in [
        (r#"{"success":false,"error":"disk is full"}"#, ErrorCode::ExecutionError, "disk is full"),
        (r#"{"success":false,"error":{"code":"INTERNAL","message":null}}"#, ErrorCode::Internal, "no readable message"),
        (r#"{"success":false,"error":{"code":"INTERNAL","message":"no"},"text":5}"#, ErrorCode::Internal, "no"),
        (r#"{"success":false,"error":{"message":"no"},"text":"\ud800"}"#, ErrorCode::ExecutionError, "no"),
        (r#"{"success":false,"error":{"message":"no"},"meta":[]}"#, ErrorCode::ExecutionError, "no"),
        (r#"{"success":false,"error":7}"#, ErrorCode::ExecutionError, "no readable message"),
        (r#"{"success":false}"#, ErrorCode::ExecutionError, "without an error"),
        (r#"{"success":false,"error":null}"#, ErrorCode::ExecutionError, "without an error"),
        (r#"{"success":true,"success":false,"error":{"message":"no"}}"#, ErrorCode::ExecutionError, "more than once"),
        (r#"{"success":true,"error":{"code":"INTERNAL","message":"no"}}"#, ErrorCode::ExecutionError, "both"),
        (r#"{"success":false,"\ud800":1,"error":{"message":"no"}}"#, ErrorCode::ExecutionError, "can't be read"),
    ] {
        let result = judge(stdout, 0);
        let (got, said) = error(&result);
        assert_eq!(got, code, "{stdout}");
        assert!(said.contains(message), "{stdout}: {said}");
    }
}

#[test]
fn a_success_field_that_is_not_boolean_makes_a_bare_value() {
    for stdout in [r#"{"success":"false"}"#, r#"{"success":1}"#, r#"{"x":{"success":false}}"#] {
        assert_eq!(data(&judge(stdout, 0)), stdout);
    }
}

#[test]
fn a_skill_cannot_blame_the_worker() {
    let result = judge(r#"{"success": false, "error": {"code": "TOOL_INVOCATION_ERROR", "message": "no"}}"#, 1);
    assert_eq!(result.error.unwrap().blame(), Blame::Skill);
}

#[test]
fn a_servers_own_success_field_is_data_unless_it_follows_the_contract() {
    let judge = |json: &str| {
        normalize(
            RawOutput::Answer { json: json.to_owned(), otherwise: None, refused: false },
            NormalizeOptions::default(),
        )
    };
    for bare in [
        r#"{"success":true,"errors":[],"result":{"id":1}}"#,
        r#"{"success":false,"errors":[{"code":1}]}"#,
        r#"{"success":true,"error":null,"result":1}"#,
        r#"{"success":false,"error":true}"#,
        r#"{"success":true}"#,
    ] {
        assert_eq!(data(&judge(bare)), bare);
    }
    assert_eq!(data(&judge(r#"{"success":true,"data":[1]}"#)), "[1]");
    assert_eq!(error(&judge(r#"{"success":false,"error":"no"}"#)).1, "no");
    let reported = judge(r#"{"success":false,"error":{"code":"NOT_FOUND","message":"gone"}}"#);
    assert_eq!(error(&reported), (ErrorCode::NotFound, "gone"));
    // A failing status stays a failure.
    let otherwise = Some(SkillError::new(ErrorCode::NetworkError, "503"));
    let json = r#"{"success":true,"result":1}"#.to_owned();
    assert_eq!(
        error(&normalize(RawOutput::Answer { json, otherwise, refused: false }, NormalizeOptions::default())),
        (ErrorCode::NetworkError, "503")
    );
}

#[test]
fn a_report_lists_artifacts_and_a_malformed_one_is_a_warning() {
    let result = judge(
        r#"{"success": true, "data": 1, "artifacts": [{"name": "a.txt", "media_type": "text/plain", "data": "aGk="}, {"data": "?"}, 7]}"#,
        0,
    );
    assert_eq!(data(&result), "1");
    let [artifact] = &result.artifacts[..] else { panic!("{result:?}") };
    assert_eq!((artifact.name.as_str(), artifact.media_type.as_str()), ("a.txt", "text/plain"));
    assert_eq!(artifact.content, Some(openskill_proto::v1::artifact::Content::Data("hi".into())));
    assert!(result.warnings[0].starts_with("2 artifacts"), "{:?}", result.warnings);
    let failed = judge(r#"{"success": false, "error": "no", "artifacts": {}}"#, 1);
    assert!(failed.artifacts.is_empty() && failed.warnings[0].contains("not a list"), "{failed:?}");
}

#[test]
fn output_with_a_key_twice_is_refused_with_its_path() {
    for (stdout, path) in [
        (r#"{"a":1,"a":2}"#, "'/a'"),
        (r#"[{"b":{"x":1,"y":2,"\u0078":3}}]"#, "'/0/b/x'"),
        (r#"{"success":true,"data":{"k":1,"k":1}}"#, "'/data/k'"),
        (r#"{"success":false,"error":{"message":"no","message":"yes"}}"#, "'/error/message'"),
    ] {
        let result = judge(stdout, 0);
        let (code, message) = error(&result);
        assert_eq!(code, ErrorCode::ExecutionError, "{stdout}");
        assert!(message.contains("more than once") && message.contains(path), "{message}");
    }
    let value = normalize(RawOutput::Value(r#"{"a":1,"a":2}"#.to_owned()), NormalizeOptions::default());
    assert!(error(&value).1.contains("'/a'"), "{value:?}");
}

#[test]
fn only_a_runner_can_say_that_the_skill_did_not_start() {
    let failure = || SkillError::new(ErrorCode::NetworkError, "no");
    assert!(normalize(RawOutput::NotStarted(failure()), NormalizeOptions::default()).not_started);
    assert!(!normalize(RawOutput::Failed(failure()), NormalizeOptions::default()).not_started);
    assert!(!judge(r#"{"success":false,"error":{"code":"TOOL_INVOCATION_ERROR","message":"no"}}"#, 1).not_started);
    let answer = |status: Option<SkillError>, refused| {
        normalize(RawOutput::Answer { json: "{}".to_owned(), otherwise: status, refused }, NormalizeOptions::default())
            .not_started
    };
    assert!(answer(Some(failure()), true) && !answer(Some(failure()), false) && !answer(None, true));
}

/// Returns the error message of a script that exited with 1, printed nothing, and wrote this to stderr.
fn failed_with(stderr: &str, networkless: bool) -> String {
    let raw = RawOutput::from_process(Vec::new(), stderr.as_bytes().to_vec(), Exit::Code(1), 0);
    error(&normalize(raw, NormalizeOptions { networkless, ..NormalizeOptions::default() })).1.to_owned()
}

#[test]
fn a_script_that_fails_is_answered_with_its_exception() {
    let stderr = "Traceback (most recent call last):\n  File \"/srv/x.py\", line 1, in <module>\nValueError: no rows\n";
    assert_eq!(failed_with(stderr, false), "the skill printed nothing on stdout (exit code 1): ValueError: no rows");
    assert!(!failed_with("token: s3cret", false).contains("s3cret"));
}

#[test]
fn a_network_that_the_jail_keeps_away_is_named_with_its_key() {
    let stderr = "Traceback (most recent call last):\n  File \"/usr/lib/socket.py\"\nsocket.gaierror: [Errno -3] Temporary failure \
                  in name resolution\n";
    assert!(
        failed_with(stderr, true)
            .ends_with("the skill has no network: grant it in its manifest, such as `network: [443]`")
    );
    assert!(!failed_with(stderr, false).contains("manifest"), "it has a network, which failed");
    let reported = r#"{"success": false, "error": {"code": "INTERNAL", "message": "Network is unreachable"}}"#;
    let raw = RawOutput::from_process(reported.into(), vec![], Exit::Code(3), 0);
    let result = normalize(raw, NormalizeOptions { networkless: true, ..NormalizeOptions::default() });
    assert!(error(&result).1.contains("network: [443]"), "{result:?}");
}
