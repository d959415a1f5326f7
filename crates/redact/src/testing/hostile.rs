//! Text for benchmarks: typical text, and text that is designed to be slow.

use super::innocent::innocent;
use super::random::Random;

/// Returns typical texts of about this length each: prose, JSON, logs, code, and program output.
pub fn typical(length: usize) -> Vec<(&'static str, String)> {
    let prose = "Der Bericht zeigt, dass the committee met on Tuesday, and that nobody had read it. It was decided to wait for another \
        week; members who had travelled far were not pleased. \"We came for this,\" one of them said.\n";
    let log = "2026-01-31T12:00:01.482913Z  INFO openskill::call: done skill=\"echo\" trace_id=4bf92f3577b34da6a3ce929d0e0e4736 \
        latency_ms=12 attempts=1 worker=127.0.0.1:50051 code=OK\n";
    let code = "    let found = self.frames.iter().rposition(|frame| frame.is_object);\n    if found.is_none() { return Err(Error::at(self.line)); }\n";
    let json = r#"{"id": 48213, "title": "A place to stay", "price": {"amount": 129.5, "currency": "EUR"}, "tags": ["new", "sale"], "url": "https://example.com/items/48213?page=2", "updated_at": "2026-01-31T12:00:01Z", "text": "It has two rooms,\na kitchen, and a \"view\"."}"#;
    let diff = "@@ -12,7 +12,7 @@ fn main() {\n-    println!(\"{}\", items.len());\n+    println!(\"{} items\", items.len());\n index 3b18e512..a1c2d3e4 100644\n";
    let filled = |text: &str| text.repeat(length / text.len() + 1);
    let mixed = || {
        let mut random = Random::new(1);
        let mut text = String::new();
        while text.len() < length {
            text.push_str(&innocent(&mut random));
            text.push('\n');
        }
        text
    };
    vec![
        ("prose", filled(prose)),
        ("log", filled(log)),
        ("code", filled(code)),
        ("json", format!("[{}0]", filled(&format!("{json},\n")))),
        ("diff", filled(diff)),
        ("chinese", filled("会议在星期二举行，没有人读过报告。决定再等一个星期；远道而来的成员并不高兴。\n")),
        ("mixed", mixed()),
    ]
}

/// Returns texts of about this length that would be slow to scan if a rule read too far.
pub fn hostile(length: usize) -> Vec<(String, String)> {
    let parts = [
        "sk-",
        "sk-ant-",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "----",
        "-",
        "- ",
        "eyJ",
        "eyJ-",
        "eyJ.",
        "eyJhbGciOiJIUzI1NiJ9.",
        "Bearer ",
        "bearer bearer\n",
        "Basic ",
        "Authorization: ",
        "authorization: a b c d ",
        "Authorization: Bearer ",
        "cookie: ",
        "password ",
        "password is ",
        "the password is not ",
        "password: ",
        "password: |\n ",
        "password: >-\n  the a is\n",
        "password:\n  ",
        "password:\n- ",
        "password:\n- a: b\n",
        "password: [",
        "password: [a1b2c3,",
        "password: &a ",
        "password: !!str &a ",
        "password: string = ",
        "password: a ",
        "password=\"\"\"",
        "password=\"\"\"\n",
        "password='''\n\"",
        "password=String::from(\"",
        "password(\\“ ",
        "setPassword(\\“ ",
        "(\"password\", ",
        "(\"password\", \"",
        "(\"a\", \"b\", \"password\", ",
        "(\"",
        "a[password]=",
        "a[0][1][2]=",
        "form-data; name=\"password\"",
        "form-data; name=\"password\"\n\n",
        "form-data; name=\"code\"\n\n",
        "<password><![CDATA[",
        "<pwd><![CDATA[/ ",
        "<password a=\"\">",
        "<password>\n",
        "\">",
        "Authorization: Digest a=\"",
        "Authorization: a=\"b\",\n ",
        "password=",
        "password=(",
        "password=\"",
        "password='",
        "password=\\\"",
        "password=“",
        "auth='",
        "auth=\"",
        "auth=“",
        "token: {{ ",
        "token=${",
        "secret: [",
        "api_key=<",
        "api_key%",
        "apiapi_key =aapi1_key =a)/",
        "pass+word=a&",
        "=\u{301}",
        "--password ",
        "--token --token ",
        "-u a:",
        "-p ",
        "mysql -p",
        "1",
        "4",
        "4111 ",
        "4111-1111-",
        "4111111111111111 ",
        "41111111111111111111 ",
        "://",
        "a://b",
        "redis://x:y",
        "postgres://u:p@",
        "https://",
        "@",
        "a@",
        "a@b.",
        "@tcp(",
        "a:b@tcp(",
        ":",
        "=",
        "a=",
        "a:",
        "::",
        "key=",
        "?key=",
        "&key=a",
        "?sig=",
        "name: ",
        "name: password ",
        "value: ",
        "name=token value=",
        "\\",
        "\\\"",
        "\\u0041",
        "\\u002d",
        "\\\\u002d",
        "\\/",
        "%",
        "%41",
        "%2541",
        "%252541",
        "%25",
        "/",
        "/home/",
        "/Users/",
        "/Users/a b",
        "\\Users\\",
        "C:\\Users\\x",
        "\\n",
        "\u{1b}[",
        "\\033[",
        "[",
        "{",
        "{\"",
        "{\"a\":",
        "[[",
        "\"",
        "''",
        "{\"a\":\"{\\\"a\\\":",
        "{\"password\":",
        "[\"--password\",",
        "AKIA",
        "AKIAIOSFODNN7EXAMPLE ",
        "cGFzc3dvcmQ6",
        "cGFzc3dvcmQ6IGh1bnRlcjI=\n",
        "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ ",
        "A",
        "aA0",
        "AAAA/",
        "a.",
        "a-",
        "a_",
        "_live_",
        "密",
        "密码",
        "密码：",
        "密码是 ",
        "\u{ff1a}",
        " ",
        "\n",
        "\t",
        "\r\n",
        "\0",
        "Q~",
        "1Q~",
        "~",
        "$",
        "$2b$",
        "$6$",
        "<a>",
        "<password>",
        ">",
        "<",
        "session_id=a ",
        "session_id: abc123 ",
        "tool_call_id=x\n",
        "12345678:",
        "123456789:AA",
        "hooks.slack.com/services/",
        "api.",
        "webhook",
        "M.",
        "MTIzNDU2Nzg5MDEyMzQ1Njc4.",
        "0123456789abcdef0123456789abcdef.",
        "AzSe",
        "pat",
        "secret_",
        "xoxb-",
        "ghp_",
        "SG.",
        "dp.",
        "hvs.",
        "otp is ",
        "pin 1",
        "password password1 ",
        "token is the my your this ",
        "+1",
        "(0",
        "+49 30 ",
        "a%20",
        "Bearer%20",
        "&quot;",
        "password=&quot;",
        "password,",
        "password=,",
        "password=a,b",
        "password=a&",
        "password=a;b=c;",
        "ａ",
        "\u{301}",
    ];
    let filled = |part: &str| part.repeat(length / part.len() + 1);
    let mut texts: Vec<_> = parts.iter().map(|part| (part.escape_debug().to_string(), filled(part))).collect();
    let nested = |depth: usize| {
        let mut text = "x".repeat(length / 8);
        for _ in 0..depth {
            text = format!("{{\"a\":\"{}\"}}", text.replace('\\', "\\\\").replace('"', "\\\""));
        }
        text
    };
    texts.extend([1, 2, 4, 6, 12].map(|depth| (format!("JSON in JSON, {depth} deep"), nested(depth))));
    let names = filled("password:\\n  “\\n") + "”:";
    texts.push(("strings below a name that one mark closes, as a name".to_owned(), names));
    let levels: String = (0..length / 64).map(|at| format!("auth={}\"x ", "\\".repeat(at % 60))).collect();
    texts.push(("quotes of many levels".to_owned(), levels));
    let block = |at: usize| format!("{}password: |\n", " ".repeat(at % 150));
    texts.push(("blocks in blocks".to_owned(), (0..length / 80).map(block).collect()));
    let mut random = Random::new(7);
    texts.push(("random letters".to_owned(), random.text(super::random::ALNUM, length)));
    texts.push(("random ASCII".to_owned(), (0..length).map(|_| char::from(32 + random.below(95) as u8)).collect()));
    texts.push(("random hex".to_owned(), random.hex(length)));
    texts.push(("random digits".to_owned(), random.digits(length)));
    texts.push(("cut JSON".to_owned(), "{\"a\": [1, \"b\"], \"c\": {".repeat(length / 22)));
    texts.push(("long JSON string".to_owned(), format!("{{\"a\": \"{}", "b c ".repeat(length / 4))));
    texts
}
