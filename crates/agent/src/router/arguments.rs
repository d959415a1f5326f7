//! Arguments from a text, by rules.

use serde_json::json;

use super::words::Words;

/// Numbers that are taken from one text.
const MAX_NUMBERS: usize = 10_000;

/// The longest query, in characters.
const MAX_QUERY: usize = 200;

/// The arguments of a shipped skill. None if the text does not have what it requires.
pub(super) fn of(skill: &str, text: &str, words: &Words<'_>) -> Option<String> {
    match skill {
        "echo" => Some(echo(text.get("echo:".len()..).unwrap_or_default().trim_start())),
        "file_search" => search(text, words),
        "calculator" => calculate(text, words),
        "log_transform" => log(text),
        _ => None,
    }
}

/// The text itself.
pub(super) fn echo(text: &str) -> String {
    json!({ "text": text }).to_string()
}

/// What is quoted, or stands behind the word that asks for it.
fn search(text: &str, words: &Words<'_>) -> Option<String> {
    let quoted = between(text, '"', '"').or_else(|| between(text, '“', '”')).or_else(|| between(text, '「', '」'));
    let behind = || {
        let latin = ["search", "find", "grep"].into_iter().filter_map(|it| words.end_of(it));
        let chinese = ["搜索", "检索", "查找"].into_iter().filter_map(|it| Some(text.find(it)? + it.len()));
        let from = latin.chain(chinese).min()?;
        let rest = text[from..].trim_start_matches([' ', ':', '：']).trim();
        let rest = rest.strip_prefix("for ").unwrap_or(rest);
        // What follows names files, not what to look for.
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

/// The numbers of the text, and what it asks of them.
fn calculate(text: &str, words: &Words<'_>) -> Option<String> {
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

/// The numbers of a text, as they are written.
fn numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        let word = word.trim_end_matches(['.', '-']);
        // JSON knows no leading zeros and no bare points.
        if word.len() <= 64 && word.bytes().any(|it| it.is_ascii_digit()) && serde_json::from_str::<f64>(word).is_ok() {
            numbers.push(word.to_owned());
        }
        if numbers.len() == MAX_NUMBERS {
            break;
        }
    }
    numbers
}

/// The file that the text names.
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
