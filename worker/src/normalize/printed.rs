//! Normalizes the output of a program that does not follow the contract of scripts. The manifest selects text,
//! lines, or one JSON value.

use std::borrow::Cow;

use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_proto::v1::{ErrorCode, ExecuteResult, SkillError};
use openskill_sandbox::protocol::Exit;
use openskill_sandbox::untrusted_json::without_byte_order_mark;
use serde_json::Value;

use super::{NormalizeOptions, broke, exit_code, failure_result, one_value, success_result, with_reasons};
use crate::manifest::exec::{Output, Printed};
use crate::runner::RawOutput;

/// The maximum part of stderr that an error contains, in bytes.
const MAX_SAID_BYTES: usize = 1000;

/// Normalizes a run like [`super::normalize`], but interprets stdout and the exit code as the manifest specifies.
pub(crate) fn normalize(raw: RawOutput, printed: &Printed, options: NormalizeOptions) -> ExecuteResult {
    let RawOutput::Process { stdout, stderr, exit, leftovers, .. } = raw else {
        return super::normalize(raw, options);
    };
    with_reasons(normalize_program(&stdout, &stderr, exit, leftovers, printed, options), &stderr, options)
}

fn normalize_program(
    stdout: &[u8],
    stderr: &[u8],
    exit: Exit,
    leftovers: u32,
    printed: &Printed,
    options: NormalizeOptions,
) -> ExecuteResult {
    let code = match exit_code(exit, leftovers) {
        Ok(code) => code,
        Err(reason) => return broke(reason),
    };
    let is_one_of = |codes: &[u8]| codes.iter().any(|it| i32::from(*it) == code);
    if is_one_of(&printed.ok_exits) {
        return data(stdout, code, printed.output, options);
    }
    let said = match (printed.show_stderr, stderr.is_empty()) {
        (true, _) => stderr_tail(stderr),
        (false, false) => "; its stderr is in the worker's log at level debug".to_owned(),
        (false, true) => String::new(),
    };
    if is_one_of(&printed.invalid_exits) {
        let message = format!("the program refused its arguments with exit code {code}{said}");
        return failure_result(SkillError::new(ErrorCode::InvalidArgument, message));
    }
    broke(format!("the program ended with exit code {code}{said}"))
}

/// Converts stdout to data.
fn data(stdout: &[u8], code: i32, output: Output, options: NormalizeOptions) -> ExecuteResult {
    let stdout = without_byte_order_mark(stdout);
    let text = String::from_utf8_lossy(stdout);
    let data = match output {
        Output::Json if text.trim_ascii().is_empty() => {
            return broke(format!("the program printed nothing on stdout (exit code {code}), where JSON was expected"));
        }
        Output::Json => match (&text, one_value(&text)) {
            (Cow::Owned(_), _) => return broke(format!("the program's output is not UTF-8 (exit code {code})")),
            (_, Ok(value)) => return success_result(value),
            (_, Err(fault)) => {
                let printed = fault.printed(&text, options);
                return broke(format!("the program's output {fault} (exit code {code}){printed}"));
            }
        },
        Output::Lines => list(&text),
        Output::Text => Some(Value::from(text.strip_suffix('\n').unwrap_or(&text)).to_string()),
    };
    let Some(data) = data.filter(|data| data.len() <= MAX_OUTPUT_BYTES) else {
        let message = format!("the skill printed more than {MAX_OUTPUT_BYTES} bytes, written as JSON");
        return failure_result(SkillError::new(ErrorCode::OutputTooLarge, message));
    };
    let replaced =
        matches!(text, Cow::Owned(_)).then(|| "bytes in the output that are not UTF-8 were replaced".to_owned());
    ExecuteResult {
        success: true,
        data_json: data.into(),
        warnings: replaced.into_iter().collect(),
        ..ExecuteResult::default()
    }
}

/// Converts lines to a JSON list. Returns `None` if the list would be too large.
fn list(text: &str) -> Option<String> {
    let mut list = String::from("[");
    for line in text.lines() {
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(&Value::from(line).to_string());
        if list.len() > MAX_OUTPUT_BYTES {
            return None;
        }
    }
    list.push(']');
    Some(list)
}

/// Returns the end of stderr on one line.
fn stderr_tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    let end = &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_SAID_BYTES))..];
    if end.is_empty() { String::new() } else { format!(": {end}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(output: Output) -> Printed {
        Printed { output, ok_exits: vec![0, 1], invalid_exits: vec![2], show_stderr: true }
    }

    fn judge(stdout: impl AsRef<[u8]>, code: i32, printed: &Printed) -> ExecuteResult {
        let (stdout, stderr) = (stdout.as_ref().to_vec(), b"prog: bad\n\n  line 2\n".to_vec());
        normalize(RawOutput::from_process(stdout, stderr, Exit::Code(code), 0), printed, NormalizeOptions::default())
    }

    fn data_of(stdout: impl AsRef<[u8]>, output: Output) -> Value {
        let result = judge(stdout, 0, &printed(output));
        assert!(result.success && result.error.is_none(), "{result:?}");
        serde_json::from_slice(&result.data_json).unwrap()
    }

    fn error(result: &ExecuteResult) -> (ErrorCode, &str) {
        assert!(!result.success && result.data_json.is_empty(), "{result:?}");
        let error = result.error.as_ref().unwrap();
        (error.code(), &error.message)
    }

    #[test]
    fn lines_become_a_list_and_a_text_loses_its_last_newline() {
        assert_eq!(data_of("a\r\n\n\"b\"", Output::Lines), serde_json::json!(["a", "", "\"b\""]));
        assert_eq!(data_of("", Output::Lines), serde_json::json!([]));
        assert_eq!(data_of("a\nb\n\n", Output::Text), "a\nb\n");
        assert_eq!(data_of("", Output::Text), "");
        assert_eq!(data_of("\u{feff}a\n", Output::Text), "a");
        assert_eq!(data_of("\u{feff}a\nb", Output::Lines), serde_json::json!(["a", "b"]));
    }

    #[test]
    fn json_is_the_data_even_if_it_looks_like_a_result() {
        let value = r#"{"success": false, "n": 12345678901234567890123}"#;
        assert_eq!(judge(value, 0, &printed(Output::Json)).data_json, value.as_bytes());
        for (stdout, word) in [("", "printed nothing"), ("1 2", "more than one"), ("{", "not valid JSON")] {
            let result = judge(stdout, 0, &printed(Output::Json));
            assert_eq!(error(&result).0, ErrorCode::ExecutionError);
            assert!(error(&result).1.contains(word), "{result:?}");
        }
        assert_eq!(data_of("\u{feff}{\"a\": 1}\n", Output::Json), serde_json::json!({"a": 1}));
        let result = judge("\u{feff}\n", 0, &printed(Output::Json));
        assert!(error(&result).1.contains("printed nothing"), "{result:?}");
        let result = judge(b"\"\xff\"", 0, &printed(Output::Json));
        assert!(error(&result).1.contains("not UTF-8"), "{result:?}");
    }

    #[test]
    fn the_manifest_says_what_an_exit_code_means() {
        assert!(judge("a", 1, &printed(Output::Lines)).success);
        let said = "the program refused its arguments with exit code 2: prog: bad; line 2";
        assert_eq!(error(&judge("a", 2, &printed(Output::Lines))), (ErrorCode::InvalidArgument, said));
        let said = "the program ended with exit code 3: prog: bad; line 2";
        assert_eq!(error(&judge("a", 3, &printed(Output::Lines))), (ErrorCode::ExecutionError, said));
        let strict = Printed { ok_exits: vec![0], show_stderr: false, ..printed(Output::Lines) };
        let result = judge("a", 1, &strict);
        assert!(error(&result).1.starts_with("the program ended with exit code 1; its stderr"), "{result:?}");
        assert!(!error(&result).1.contains("prog: bad"));
    }

    #[test]
    fn a_signal_and_leftovers_are_failures_whatever_the_manifest_says() {
        for (exit, leftovers, word) in [(Exit::Signal(9), 0, "SIGKILL"), (Exit::Code(0), 2, "left 2 process(es)")] {
            let raw = RawOutput::from_process(b"a".to_vec(), Vec::new(), exit, leftovers);
            let result = normalize(raw, &printed(Output::Text), NormalizeOptions::default());
            assert!(error(&result).1.contains(word), "{result:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_with_a_warning() {
        let result = judge(b"caf\xe9\n", 0, &printed(Output::Text));
        assert_eq!((&result.data_json[..], result.warnings.len()), ("\"caf\u{fffd}\"".as_bytes(), 1));
    }

    #[test]
    fn data_that_grows_over_the_limit_as_json_is_refused() {
        for (stdout, output) in
            [("\u{1}".repeat(MAX_OUTPUT_BYTES / 4), Output::Text), ("\n".repeat(MAX_OUTPUT_BYTES), Output::Lines)]
        {
            assert_eq!(error(&judge(stdout, 0, &printed(output))).0, ErrorCode::OutputTooLarge);
        }
    }

    #[test]
    fn only_the_end_of_stderr_is_shown() {
        let long = stderr_tail(format!("{}é{}", "x".repeat(3000), "y".repeat(999)).as_bytes());
        assert_eq!(long, format!(": {}", "y".repeat(999)));
        assert_eq!(stderr_tail(b" \n"), "");
    }
}
