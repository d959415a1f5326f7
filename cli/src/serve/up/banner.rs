//! The commands that `openskill up` suggests once it is ready, for a skill that is available. Pure.

use openskill_gateway::{Ready, Suggestion};

use crate::terminal::shell_quote;

/// The facts that clients need to reach the gateway.
pub(super) struct ConnectionInfo {
    pub(super) url: String,
    /// The URL that other commands use by default.
    pub(super) base_url: String,
    /// Whether callers need a key, and whether they need a certificate.
    pub(super) asks_keys: bool,
    pub(super) asks_certificates: bool,
    /// The file with the authorities that clients on this machine trust. Empty if the settings name none.
    pub(super) ca: String,
}

/// The flags that each command needs to reach the gateway.
struct Flags {
    openskill: String,
    curl: String,
    grpcurl: String,
    /// What the user has to supply.
    own: Vec<&'static str>,
}

impl ConnectionInfo {
    fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }

    fn flags(&self) -> Flags {
        let mut openskill = if self.url == self.base_url { String::new() } else { format!(" --url {}", self.url) };
        let (mut curl, mut grpcurl, mut own) = (String::new(), String::new(), Vec::new());
        if self.asks_keys {
            // The openskill commands read this variable themselves.
            let header = " -H \"authorization: Bearer $OPENSKILL_TOKEN\"";
            curl.push_str(header);
            grpcurl.push_str(header);
            own.push("your key in OPENSKILL_TOKEN");
        }
        if self.is_tls() {
            let ca = if self.ca.is_empty() { "CA.pem".to_owned() } else { shell_quote(&self.ca) };
            openskill.push_str(&format!(" --ca {ca}"));
            curl.push_str(&format!(" --cacert {ca}"));
            grpcurl.push_str(&format!(" -cacert {ca}"));
            if self.ca.is_empty() {
                own.push("your authority in CA.pem");
            }
        } else {
            grpcurl.push_str(" -plaintext");
        }
        if self.asks_certificates {
            openskill.push_str(" --cert CLIENT.pem --key CLIENT.key");
            curl.push_str(" --cert CLIENT.pem --key CLIENT.key");
            grpcurl.push_str(" -cert CLIENT.pem -key CLIENT.key");
            own.push("your certificate in CLIENT.pem and CLIENT.key");
        }
        Flags { openskill, curl, grpcurl, own }
    }
}

/// Formats commands to try, and a note about unavailable skills.
pub(super) fn advice(info: &ConnectionInfo, ready: &Ready, program: &str) -> String {
    let Flags { openskill, curl, grpcurl, own } = info.flags();
    let missing = missing(ready, program, info, &openskill);
    let Some(Suggestion { skill_id, input_json }) = &ready.suggestion else { return missing };
    let url = &info.url;
    let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address);
    let with = if own.is_empty() { String::new() } else { format!(", with {}", own.join(", ")) };
    format!(
        "{missing}\n\
         Try in another terminal{with}:\n\
         \x20 curl -sS{curl} {url}/skills/{skill_id}:invoke -d {}\n\
         \x20 {program} skills{openskill}\n\
         \x20 {program} invoke {skill_id} --json {}{openskill}\n\
         \x20 grpcurl{grpcurl} {address} list\n",
        shell_quote(&format!("{{\"input\": {input_json}}}")),
        shell_quote(input_json),
    )
}

fn missing(ready: &Ready, program: &str, info: &ConnectionInfo, flags: &str) -> String {
    // Other keys may not see all skills.
    let with = if info.asks_keys { " with an administrator's key" } else { "" };
    match (ready.skills, ready.unavailable) {
        (0, 0) => {
            format!("\nThere are no skills yet: `{program} new ID` creates one, and it is loaded within a second.\n")
        }
        (_, 0) => String::new(),
        (_, 1) => format!("1 more skill is unavailable: `{program} skills --all{flags}`{with} shows the reason\n"),
        (_, count) => {
            format!("{count} more skills are unavailable: `{program} skills --all{flags}`{with} shows the reasons\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(url: &str) -> ConnectionInfo {
        let base_url = "http://127.0.0.1:8000".to_owned();
        let ca = String::new();
        ConnectionInfo { url: url.to_owned(), base_url, asks_keys: false, asks_certificates: false, ca }
    }

    fn shown(ready: &Ready) -> String {
        advice(&info("http://127.0.0.1:8123"), ready, "openskill")
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
    fn each_command_has_what_the_gateway_asks_for() {
        let strict = ConnectionInfo { asks_keys: true, asks_certificates: true, ..info("https://127.0.0.1:8123") };
        let text = advice(&strict, &suggested(2), "openskill");
        let key = r#" -H "authorization: Bearer $OPENSKILL_TOKEN""#;
        let own =
            "your key in OPENSKILL_TOKEN, your authority in CA.pem, your certificate in CLIENT.pem and CLIENT.key:";
        assert!(text.contains(own) && text.contains("` with an administrator's key shows the reasons"), "{text}");
        let curl = "--cacert CA.pem --cert CLIENT.pem --key CLIENT.key https://127.0.0.1:8123/skills/";
        assert!(text.contains(&format!("curl -sS{key} {curl}")), "{text}");
        let flags = " --url https://127.0.0.1:8123 --ca CA.pem --cert CLIENT.pem --key CLIENT.key\n";
        assert!(text.contains(&format!("openskill skills{flags}")), "{text}");
        assert!(text.contains(&format!(r#"invoke shout --json '{{"text":"it'\''s"}}'{flags}"#)), "{text}");
        let grpcurl = "-cacert CA.pem -cert CLIENT.pem -key CLIENT.key 127.0.0.1:8123 list";
        assert!(text.contains(&format!("grpcurl{key} {grpcurl}")), "{text}");
        let known = ConnectionInfo { ca: "/home/me/my ca.pem".to_owned(), ..info("https://127.0.0.1:8123") };
        let text = advice(&known, &suggested(0), "openskill");
        assert!(text.contains("terminal:\n") && text.contains("grpcurl -cacert '/home/me/my ca.pem' 127"), "{text}");
    }

    #[test]
    fn without_skills_nothing_is_suggested_but_a_first_one() {
        let text = shown(&Ready { workers: 1, skills: 0, unavailable: 0, suggestion: None });
        assert!(text.contains("`openskill new ID` creates one") && !text.contains("curl"), "{text}");
    }
}
