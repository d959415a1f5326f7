//! Extracts arguments from a text with fixed rules.

use serde_json::json;

use super::words::Words;

/// The maximum number of numbers extracted from a text.
const MAX_NUMBERS: usize = 10_000;

/// The maximum length of a query, in characters.
const MAX_QUERY: usize = 200;

/// Extracts the arguments for a built-in skill. Returns `None` if the text lacks a required argument.
pub(super) fn extract(skill: &str, text: &str, words: &Words) -> Option<String> {
    match skill {
        "echo" => Some(echo(text.get("echo:".len()..).unwrap_or_default().trim_start())),
        "file_search" => search(text, words),
        "calculator" => calculate(text, words),
        "log_transform" => log(text),
        _ => None,
    }
}

/// Returns the arguments of `echo`: the text itself.
fn echo(text: &str) -> String {
    json!({ "text": text }).to_string()
}

/// Extracts the arguments of `file_search`. The query is the quoted text, or else the text after the word that
/// requests a search.
fn search(text: &str, words: &Words) -> Option<String> {
    let quoted = between(text, '"', '"').or_else(|| between(text, '“', '”')).or_else(|| between(text, '「', '」'));
    let behind = || {
        let latin = ["search", "find", "grep"].into_iter().filter_map(|it| words.end_of(it));
        let chinese = ["搜索", "检索", "查找"].into_iter().filter_map(|it| Some(text.find(it)? + it.len()));
        let from = latin.chain(chinese).min()?;
        let rest = text[from..].trim_start_matches([' ', ':', '：']).trim();
        let rest = rest.strip_prefix("for ").unwrap_or(rest);
        // These words introduce file names.
        let end = [" in ", " under "].into_iter().filter_map(|it| rest.find(it)).min().unwrap_or(rest.len());
        Some(&rest[..end])
    };
    let query: String = quoted.or_else(behind)?.trim().chars().take(MAX_QUERY).collect();
    if query.is_empty() || query.contains(['\r', '\n', '\0']) {
        return None;
    }
    let mut arguments = json!({ "query": query });
    let outside = text.split_whitespace().map(trim).filter(|it| !query.contains(it));
    for word in outside {
        if word.contains('*') {
            let glob = if word.contains('/') { word.to_owned() } else { format!("**/{word}") };
            arguments["glob"] = glob.into();
        } else if is_below_data(word) {
            arguments["root_dir"] = word.into();
        }
    }
    Some(arguments.to_string())
}

/// Extracts the arguments of `calculator`: the numbers in the text, and the requested operations.
fn calculate(text: &str, words: &Words) -> Option<String> {
    let numbers = numbers(text);
    if numbers.is_empty() {
        return None;
    }
    let asks = |latin: &[&str], chinese: &[&str]| {
        latin.iter().any(|it| words.has(it)) || chinese.iter().any(|it| text.contains(it))
    };
    let all = [
        ("mean", asks(&["mean", "average"], &["平均", "均值"])),
        ("median", asks(&["median"], &["中位数"])),
        ("min", asks(&["min", "minimum"], &["最小"])),
        ("max", asks(&["max", "maximum"], &["最大"])),
        ("sum", asks(&["sum"], &["求和", "总和"])),
    ];
    let mut ops: Vec<_> = all.into_iter().filter(|(_, is_asked)| *is_asked).map(|(op, _)| op).collect();
    let compares = asks(&["compare"], &["比较"]) && numbers.len() >= 2;
    if ops.is_empty() {
        ops = vec!["min", "max"];
    }
    let list = numbers.join(",");
    let compare =
        if compares { format!(r#","compare":{{"a":{},"b":{}}}"#, numbers[0], numbers[1]) } else { String::new() };
    Some(format!(r#"{{"numbers":[{list}],"ops":{}{compare}}}"#, json!(ops)))
}

/// Returns the numbers in a text, unchanged.
fn numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        let word = word.trim_end_matches(['.', '-']);
        // JSON allows neither leading zeros nor numbers that begin or end with a decimal point.
        if word.len() <= 64 && word.bytes().any(|it| it.is_ascii_digit()) && serde_json::from_str::<f64>(word).is_ok() {
            numbers.push(word.to_owned());
        }
        if numbers.len() == MAX_NUMBERS {
            break;
        }
    }
    numbers
}

/// Extracts the arguments of `log_transform`: the file named in the text.
fn log(text: &str) -> Option<String> {
    let is_file = |it: &&str| it.ends_with(".log") || it.ends_with(".jsonl") || (is_below_data(it) && it.contains('.'));
    let file =
        text.split(|c: char| c.is_whitespace() || matches!(c, '，' | '。' | ',' | '"')).map(trim).find(is_file)?;
    let path = if file.contains('/') { file.to_owned() } else { format!("data/logs/{file}") };
    let format = if path.ends_with(".jsonl") { "jsonl" } else { "text" };
    Some(json!({ "input_path": path, "format": format }).to_string())
}

fn is_below_data(word: &str) -> bool {
    word == "data" || word.starts_with("data/") || word.starts_with("./data")
}

fn trim(word: &str) -> &str {
    word.trim_matches(['"', '\'', ',', '，', '。', '?', '？', ';'])
}

fn between(text: &str, open: char, close: char) -> Option<&str> {
    let from = text.find(open)? + open.len_utf8();
    let end = from + text[from..].find(close)?;
    Some(&text[from..end])
}
