//! Places where secrets occur.

use super::innocent::innocent;
use super::random::Random;
use super::secrets::{SHAPES, Secret};

/// A text with a planted secret.
#[derive(Debug, Clone)]
pub struct Planted {
    /// The secret before any escaping.
    pub secret: Secret,
    /// The name of the place.
    pub place: &'static str,
    /// The whole text, with the secret in it.
    pub text: String,
    /// Whether the text is a JSON document.
    pub is_json: bool,
}

impl Planted {
    /// Returns the part of the secret that is still in a text: at least a third of it, and at least six bytes.
    /// Escapes do not hide it.
    pub fn survivor(&self, redacted: &str) -> Option<String> {
        let plain = |text: &str| text.replace("\\n", "\n").replace("\\\\n", "\n").replace(['\\', '\n', ' '], "");
        let (secret, redacted) = (plain(&self.secret.text), plain(redacted));
        let decoded = decode_all(&redacted);
        let length = (secret.len() / 3).max(6);
        let starts = (0..=secret.len().saturating_sub(length)).filter(|at| secret.is_char_boundary(*at));
        let found = starts.filter_map(|at| secret.get(at..at + length)).find(|part| {
            !part.starts_with("-----") && !is_label(part) && (redacted.contains(part) || decoded.contains(part))
        });
        found.map(str::to_owned)
    }
}

/// Whether a part is a label of a private key, which is not secret.
fn is_label(part: &str) -> bool {
    ["PRIVATEKEY", "BEGIN", "END", "OPENSSH"].iter().any(|label| part.contains(label))
}

/// Decodes URL encoding and base64 in a text.
fn decode_all(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten().and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    let mut decoded = String::from_utf8_lossy(&out).into_owned();
    for run in text.split(|it: char| !(it.is_ascii_alphanumeric() || "+/=".contains(it))).filter(|run| run.len() >= 24)
    {
        decoded.push('\n');
        decoded.push_str(&String::from_utf8_lossy(&crate::values::base64::decode(run.as_bytes(), 1 << 16)));
    }
    decoded
}

fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            it if it < ' ' => out.push_str(&format!("\\u{:04x}", it as u32)),
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

fn percent(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Encodes bytes as base64 with padding.
fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        let sextets = (0..4).map(|at| char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        out.extend(sextets.take(group.len() + 1));
        out.push_str(&"="[..usize::from(group.len() == 1)]);
        out.push_str(&"="[..usize::from(group.len() < 3)]);
    }
    out
}

const NAMES: [&str; 24] = [
    "password",
    "api_key",
    "apiKey",
    "API-KEY",
    "client_secret",
    "accessToken",
    "secret_key",
    "DB_PASSWORD",
    "auth_token",
    "privateKey",
    "x-api-key",
    "credentials",
    "GITHUB_TOKEN",
    "AccountKey",
    "refresh_token",
    "passwd",
    "SecretAccessKey",
    "signing_key",
    "secret",
    "token",
    "user.password",
    "openaiApiKey",
    "webhook_secret",
    "connection_string",
];

type Place = (&'static str, fn(&mut Random, &str, &str) -> String, bool);

/// Places that name their content. The arguments are a name and a secret.
const NAMED: [Place; 32] = [
    ("JSON field", |r, name, secret| format!("{{{}: {}, \"n\": {}}}", json(name), json(secret), r.below(9)), true),
    (
        "nested JSON field",
        |_, name, secret| format!("{{\"a\":[{{\"b\":{{{}:{}}}}}],\"c\":null}}", json(name), json(secret)),
        true,
    ),
    (
        "JSON in JSON",
        |_, name, secret| format!("{{\"body\":{}}}", json(&format!("{{{}:{}}}", json(name), json(secret)))),
        true,
    ),
    (
        "JSON in JSON in JSON",
        |_, name, secret| {
            let inner = json(&format!("{{{}: {}}}", json(name), json(secret)));
            format!("{{\"a\":{}}}", json(&format!("{{\"b\":{inner}}}")))
        },
        true,
    ),
    (
        "JSON in a log line",
        |_, name, secret| format!("12:00 WARN refused: {{{}: {}}} from 10.0.0.1", json(name), json(secret)),
        false,
    ),
    ("cut JSON", |_, name, secret| format!("{{\"a\": [1, {{{}: {}, \"b", json(name), json(secret)), false),
    (
        "escaped JSON in a log line",
        |_, name, secret| {
            let inner = json(&format!("{{{}:{}}}", json(name), json(secret)));
            format!("INFO body={inner} done")
        },
        false,
    ),
    ("name and value", |_, name, secret| format!("{{\"name\": {}, \"value\": {}}}", json(name), json(secret)), true),
    ("value and name", |_, name, secret| format!("[{{\"value\": {}, \"name\": {}}}]", json(secret), json(name)), true),
    (
        "Python repr",
        |_, name, secret| format!("Namespace({{'{name}': '{}', 'n': 1}})", secret.replace('\n', "\\n")),
        false,
    ),
    ("YAML", |_, name, secret| format!("db:\n  {name}: {}\n  port: 5432\n", secret.replace('\n', "\\n")), false),
    ("quoted YAML", |_, name, secret| format!("  {name}: {}\n", json(secret)), false),
    (
        "YAML block",
        |_, name, secret| format!("db:\n  {name}: |\n    {}\n  port: 5432\n", secret.replace('\n', "\n    ")),
        false,
    ),
    (
        "YAML block in JSON",
        |_, name, secret| {
            let block = format!("{name}: >-\n  {}\nport: 5432\n", secret.replace('\n', "\n  "));
            format!("{{\"file\": {}}}", json(&block))
        },
        true,
    ),
    ("YAML below", |_, name, secret| format!("db:\n  {name}:\n    {}\n  port: 5432\n", json(secret)), false),
    ("YAML tag", |_, name, secret| format!("db:\n  {name}: !!str {}\n  port: 5432\n", json(secret)), false),
    (
        "TOML in lines",
        |_, name, secret| format!("[server]\n{} = \"\"\"\n{secret}\n\"\"\"\nport = 1\n", name.replace('.', "_")),
        false,
    ),
    ("CDATA", |_, name, secret| format!("<a><{name} b=\"c\"><![CDATA[{secret}]]></{name}></a>"), false),
    ("nested form", |_, name, secret| format!("grant=x&user[{name}]={}&scope=all", percent(secret)), false),
    (
        "part of a form",
        |_, name, secret| {
            format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{secret}\r\n--X--\r\n")
        },
        false,
    ),
    (
        "typed variable",
        |_, name, secret| format!("let {}: string = {};\n", name.replace(['-', '.'], "_"), json(secret)),
        false,
    ),
    ("call", |_, name, secret| format!("os.Setenv({}, {})\n", json(name), json(secret)), false),
    ("TOML", |_, name, secret| format!("[server]\n{} = {}\n", name.replace('.', "_"), json(secret)), false),
    ("shell", |_, name, secret| format!("export {}={} && ./run", name.replace(['-', '.'], "_"), quoted(secret)), false),
    ("flag", |_, name, secret| format!("tool --{} {} --verbose", name.replace(['_', '.'], "-"), quoted(secret)), false),
    (
        "flag with an equals sign",
        |_, name, secret| format!("tool --{}={} --verbose", name.replace(['_', '.'], "-"), quoted(secret)),
        false,
    ),
    (
        "arguments as a list",
        |_, name, secret| format!("[\"tool\", {}, {}, \"-v\"]", json(&format!("--{name}")), json(secret)),
        true,
    ),
    (
        "query string",
        |_, name, secret| format!("GET https://api.example.com/v1/x?page=2&{name}={}&sort=asc", percent(secret)),
        false,
    ),
    ("form", |_, name, secret| format!("grant_type=x&{name}={}&scope=all", percent(secret)), false),
    (
        "header",
        |_, name, secret| {
            format!(
                "HTTP/1.1 200\r\nX-{}: {}\r\nServer: x\r\n",
                name.replace(['_', '.'], "-"),
                secret.replace('\n', "\\n")
            )
        },
        false,
    ),
    ("XML", |_, name, secret| format!("<a><{name}>{}</{name}></a>", secret.replace('\n', " ")), false),
    (
        "connection string",
        |_, _, secret| {
            format!("Server=tcp:db.example.com,1433;User Id=app;Password={};Encrypt=True", secret.replace('\n', ""))
        },
        false,
    ),
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\n', "\\n"))
}

/// Places that do not name their content. Only the look of the secret identifies it.
const NAMELESS: [Place; 17] = [
    ("prose", |_, _, secret| format!("I tried it with {secret} and it failed."), false),
    ("alone", |_, _, secret| secret.to_owned(), false),
    ("JSON value", |_, _, secret| format!("{{\"text\": {}}}", json(secret)), true),
    ("JSON list", |_, _, secret| format!("[1, [\"x\", {}], null]", json(secret)), true),
    (
        "text in JSON",
        |_, _, secret| format!("{{\"output\": {}}}", json(&format!("line one\nused {secret}\nline three"))),
        true,
    ),
    (
        "JSON text in JSON text",
        |_, _, secret| format!("{{\"a\":{}}}", json(&format!("{{\"b\":{}}}", json(&format!("[{}]", json(secret)))))),
        true,
    ),
    (
        "stderr",
        |_, _, secret| {
            format!("Traceback (most recent call last):\n  File \"x.py\", line 3\nValueError: bad key '{secret}'\n")
        },
        false,
    ),
    ("coloured output", |_, _, secret| format!("\u{1b}[31m{secret}\u{1b}[0m"), false),
    ("escaped colours", |_, _, secret| format!("\\u001b[31m{secret}\\u001b[0m"), false),
    ("Chinese prose", |_, _, secret| format!("我用的是{secret}，但是失败了。"), false),
    ("URL encoding", |_, _, secret| format!("https://example.com/cb?q={}&x=1", percent(secret)), false),
    ("base64", |_, _, secret| format!("payload {}", base64(&format!("config: {secret}\n"))), false),
    (
        "base64 in JSON",
        |_, _, secret| format!("{{\"content\":{}}}", json(&base64(&format!("[default]\nvalue is {secret}\n")))),
        true,
    ),
    (
        "bearer header",
        |_, _, secret| format!("curl -H \"Authorization: Bearer {}\" https://x.example", secret.replace('\n', "\\n")),
        false,
    ),
    ("user info", |_, _, secret| format!("git clone https://user:{}@git.example.com/r.git", percent(secret)), false),
    ("data source", |_, _, secret| format!("postgres://app:{}@db:5432/app", percent(secret)), false),
    (
        "unicode escapes",
        |_, _, secret| {
            let escaped = secret.replace('-', "\\u002d").replace('_', "\\u005f").replace('\n', "\\n");
            format!("{{\"v\": \"{escaped}\"}}")
        },
        true,
    ),
];

/// Plants a secret in a random place, with innocent text around it where possible.
pub fn plant(random: &mut Random) -> Planted {
    let (shape, make, is_known_by_look) = random.pick(&SHAPES);
    let secret = Secret { shape, text: make(random), is_known_by_look: *is_known_by_look };
    let is_nameless = *is_known_by_look && random.below(2) == 0;
    let (place, write, is_json) = if is_nameless { *random.pick(&NAMELESS) } else { *random.pick(&NAMED) };
    let name = *random.pick(&NAMES);
    let mut text = write(random, name, &secret.text);
    if !is_json && random.below(3) == 0 {
        text = format!("{}\n{text}\n{}", innocent(random), innocent(random));
    }
    Planted { secret, place, text, is_json }
}

/// Plants `count` secrets. The same seed gives the same texts.
pub fn planted(seed: u64, count: usize) -> Vec<Planted> {
    let mut random = Random::new(seed);
    (0..count).map(|_| plant(&mut random)).collect()
}
