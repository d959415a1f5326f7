//! What `openskill up` suggests once it is ready: calls of skills that are there. Pure.

use openskill_gateway::{Ready, Suggestion};

/// What to try, and what is missing. `base_url`: where the other commands look for a gateway.
pub(super) fn advice(url: &str, ready: &Ready, base_url: &str, program: &str) -> String {
    let at = if url == base_url { String::new() } else { format!(" --url {url}") };
    let missing = missing(ready, program, &at);
    let Some(Suggestion { skill_id, input_json }) = &ready.suggestion else { return missing };
    // Who trusts which certificate is not known here.
    let (scheme, address) = url.split_once("://").unwrap_or(("http", url));
    let (curl, grpcurl) = if scheme == "https" { (" --cacert CA.pem", "-cacert CA.pem") } else { ("", "-plaintext") };
    format!(
        "{missing}\n\
         Try in another terminal:\n\
         \x20 curl -s{curl} {url}/skills/{skill_id}:invoke -d {}\n\
         \x20 {program} skills{at}\n\
         \x20 {program} invoke {skill_id} --json {}{at}\n\
         \x20 grpcurl {grpcurl} {address} list\n",
        quoted(&format!("{{\"input\": {input_json}}}")),
        quoted(input_json),
    )
}

fn missing(ready: &Ready, program: &str, at: &str) -> String {
    match (ready.skills, ready.unavailable) {
        (0, 0) => {
            format!("\nThere are no skills yet: `{program} new ID` creates one, and it is loaded within a second.\n")
        }
        (_, 0) => String::new(),
        (_, 1) => format!("1 more skill is unavailable: `{program} skills --all{at}` shows the reason\n"),
        (_, count) => format!("{count} more skills are unavailable: `{program} skills --all{at}` shows the reasons\n"),
    }
}

/// A word of a shell's command line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ready: &Ready) -> String {
        advice("http://127.0.0.1:8123", ready, "http://127.0.0.1:8000", "openskill")
    }

    #[test]
    fn a_skill_that_is_there_is_suggested() {
        let suggestion = Suggestion { skill_id: "shout".to_owned(), input_json: r#"{"text":"it's"}"#.to_owned() };
        let text = shown(&Ready { workers: 1, skills: 1, unavailable: 2, suggestion: Some(suggestion) });
        assert!(
            text.starts_with("2 more skills are unavailable: `openskill skills --all --url http://127.0.0.1:8123`")
        );
        assert!(text.contains(r#"/skills/shout:invoke -d '{"input": {"text":"it'\''s"}}'"#), "{text}");
        assert!(text.contains(r#"invoke shout --json '{"text":"it'\''s"}' --url http://127.0.0.1:8123"#), "{text}");
    }

    #[test]
    fn without_skills_nothing_is_suggested_but_a_first_one() {
        let text = shown(&Ready { workers: 1, skills: 0, unavailable: 0, suggestion: None });
        assert!(text.contains("`openskill new ID` creates one") && !text.contains("curl"), "{text}");
    }
}
