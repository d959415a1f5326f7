//! What `openskill up` suggests once it is ready: calls of skills that are there. Pure.

use openskill_gateway::{Ready, Suggestion};

/// How a gateway is reached.
pub(super) struct Reach {
    pub(super) url: String,
    /// Where the other commands look for a gateway.
    pub(super) base_url: String,
    /// Whether it asks its callers for a key.
    pub(super) asks_keys: bool,
}

impl Reach {
    fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// The flags of the other commands. Who trusts which certificate is not known here.
    fn flags(&self) -> String {
        let at = if self.url == self.base_url { String::new() } else { format!(" --url {}", self.url) };
        if self.is_tls() { format!("{at} --ca CA.pem") } else { at }
    }
}

/// What to try, and what is missing.
pub(super) fn advice(reach: &Reach, ready: &Ready, program: &str) -> String {
    let (url, at) = (&reach.url, reach.flags());
    let missing = missing(ready, program, &at);
    let Some(Suggestion { skill_id, input_json }) = &ready.suggestion else { return missing };
    let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address);
    let (curl, grpcurl) = if reach.is_tls() { (" --cacert CA.pem", "-cacert CA.pem") } else { ("", "-plaintext") };
    let first = match (reach.asks_keys, reach.is_tls()) {
        (true, true) => ", with your key in OPENSKILL_TOKEN and your authority in CA.pem",
        (true, false) => ", with your key in OPENSKILL_TOKEN",
        (false, true) => ", with your authority in CA.pem",
        (false, false) => "",
    };
    // The commands of openskill read the variable by themselves.
    let header = if reach.asks_keys { " -H \"authorization: Bearer $OPENSKILL_TOKEN\"" } else { "" };
    format!(
        "{missing}\n\
         Try in another terminal{first}:\n\
         \x20 curl -s{curl}{header} {url}/skills/{skill_id}:invoke -d {}\n\
         \x20 {program} skills{at}\n\
         \x20 {program} invoke {skill_id} --json {}{at}\n\
         \x20 grpcurl {grpcurl}{header} {address} list\n",
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

    fn reach(url: &str, asks_keys: bool) -> Reach {
        Reach { url: url.to_owned(), base_url: "http://127.0.0.1:8000".to_owned(), asks_keys }
    }

    fn shown(ready: &Ready) -> String {
        advice(&reach("http://127.0.0.1:8123", false), ready, "openskill")
    }

    fn suggested(unavailable: usize) -> Ready {
        let suggestion = Suggestion { skill_id: "shout".to_owned(), input_json: r#"{"text":"it's"}"#.to_owned() };
        Ready { workers: 1, skills: 1, unavailable, suggestion: Some(suggestion) }
    }

    #[test]
    fn a_skill_that_is_there_is_suggested() {
        let text = shown(&suggested(2));
        assert!(
            text.starts_with("2 more skills are unavailable: `openskill skills --all --url http://127.0.0.1:8123`")
        );
        assert!(text.contains(r#"/skills/shout:invoke -d '{"input": {"text":"it'\''s"}}'"#), "{text}");
        assert!(text.contains(r#"invoke shout --json '{"text":"it'\''s"}' --url http://127.0.0.1:8123"#), "{text}");
    }

    #[test]
    fn each_command_has_the_key_and_the_authority_that_the_gateway_asks_for() {
        let text = advice(&reach("https://127.0.0.1:8123", true), &suggested(0), "openskill");
        let key = r#" -H "authorization: Bearer $OPENSKILL_TOKEN" "#;
        assert!(text.contains("with your key in OPENSKILL_TOKEN and your authority in CA.pem:"), "{text}");
        assert!(text.contains(&format!("curl -s --cacert CA.pem{key}https://127.0.0.1:8123/skills/")), "{text}");
        let flags = " --url https://127.0.0.1:8123 --ca CA.pem\n";
        assert!(text.contains(&format!("openskill skills{flags}")), "{text}");
        assert!(text.contains(&format!(r#"invoke shout --json '{{"text":"it'\''s"}}'{flags}"#)), "{text}");
        assert!(text.contains(&format!("grpcurl -cacert CA.pem{key}127.0.0.1:8123 list")), "{text}");
    }

    #[test]
    fn without_skills_nothing_is_suggested_but_a_first_one() {
        let text = shown(&Ready { workers: 1, skills: 0, unavailable: 0, suggestion: None });
        assert!(text.contains("`openskill new ID` creates one") && !text.contains("curl"), "{text}");
    }
}
