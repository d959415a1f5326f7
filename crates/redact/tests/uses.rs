//! How the crate is used: rule files, names, ids, documents, streams.

use openskill_redact::{Redactor, RuleError, Rules};

#[test]
fn a_rule_file_adds_names_texts_and_tokens() {
    let rules = Rules::parse(
        r#"
        emails = true                   # a comment
        names = ["employee number",
                 "x-acme"]
        keep = ['token']
        literals = ["blue#horse"]

        [[token]]
        prefix = "acme_"
        min = 8
        characters = "hex"
        "#,
    )
    .unwrap();
    let redactor = Redactor::new(rules).unwrap();
    for (text, redacted) in [
        ("employeeNumber: 00123", "employeeNumber: ***"),
        (r#"{"X-Acme": "a b", "token": "abc"}"#, r#"{"X-Acme": "***", "token": "abc"}"#),
        ("the blue#horse runs", "the *** runs"),
        ("xacme_0123456789, acme_01", "x***, acme_01"),
        ("write to jane.doe+x@mail.example.com now", "write to *** now"),
    ] {
        assert_eq!(redactor.text(text), redacted);
    }
}

#[test]
fn a_mistake_in_a_rule_file_is_reported_with_its_line() {
    for (text, line, says) in [
        ("emails = yes", 1, "must be quoted"),
        ("\nnames = \"one\"", 2, "list of strings"),
        ("colour = true", 1, "unknown key `colour`"),
        ("[token]", 1, "[[token]]"),
        ("[[token]]\nprefix = \"ab\"\n[[token]]\nmin = 4", 3, "prefix"),
        ("literals = [\"abc\"]", 1, "4 to"),
        ("id_key = \"short\"", 1, "16 characters"),
        ("names = [\n\"a b\" \"c d\"]", 2, "comma"),
        ("names = [\"ab", 1, "]"),
    ] {
        let error = Rules::parse(text).unwrap_err();
        assert!(error.line == line && error.message.contains(says), "{text}: {error}");
    }
}

#[test]
fn the_value_of_a_field_is_redacted_by_the_fields_name_and_by_its_look() {
    let redactor = Redactor::default();
    for (name, value, redacted) in [
        ("db.password", "hunter2", "***"),
        ("http.request.header.authorization", "Bearer abc.def", "Bearer ***"),
        ("http.response.header.set-cookie", "a=b", "***"),
        ("gen_ai.tool.name", "password", "password"),
        ("rpc.response.status_code", "OK", "OK"),
        ("url.full", "https://a:b3tter@example.com/?page=2", "https://a:***@example.com/?page=2"),
        ("note", "use AKIAABCDEFGHIJKLMNOP", "use ***"),
    ] {
        assert_eq!(redactor.value(name, value), redacted, "{name}");
    }
    let hash = |name| redactor.value(name, "call-7").into_owned();
    assert!(hash("gen_ai.tool.call.id").starts_with("tool_call_") && hash("session.id").starts_with("session_"));
    assert_eq!(hash("gen_ai.tool.call.id"), redactor.id("tool_call", "call-7"));
    assert_eq!(Redactor::off().value("password", "hunter2"), "hunter2");
}

#[test]
fn escapes_as_logs_write_them_hide_no_secret() {
    let redactor = Redactor::default();
    for (text, redacted) in [
        (r#"stderr="\u{1b}[31mAKIAABCDEFGHIJKLMNOP\u{1b}[0m""#, r#"stderr="\u{1b}[31m***\u{1b}[0m""#),
        (r#"text="hf\u{5f}abcdefghijklmnopqrstuvwxyz01234567""#, r#"text="***""#),
        (r"caf\u{e9} \u{202e}", r"caf\u{e9} \u{202e}"),
        ("[31mhf_abcdefghijklmnopqrstuvwxyz01234567[0m", "[31m***[0m"),
        ("rate(calls[5m]) and [1;32mAKIAABCDEFGHIJKLMNOP", "rate(calls[5m]) and [1;32m***"),
    ] {
        assert_eq!(redactor.text(text), redacted, "{text}");
    }
}

#[test]
fn a_value_is_redacted_by_the_name_that_stands_beside_it() {
    let redactor = Redactor::default();
    for (text, redacted) in [
        (r#"500: [{"value": "hunter2", "name": "TOKEN"}]"#, r#"500: [{"value": "***", "name": "TOKEN"}]"#),
        (r#"x {\"value\": \"hunter2\", \"name\": \"TOKEN\"}"#, r#"x {\"value\": \"***\", \"name\": \"TOKEN\"}"#),
        ("env:\n  value: hunter2\n  name: TOKEN\n", "env:\n  value: ***\n  name: TOKEN\n"),
        ("- name: A\n  value: alice\n- name: TOKEN\n", "- name: A\n  value: alice\n- name: TOKEN\n"),
        (r#"got [{"value": "alice"}, {"name": "TOKEN"}]"#, r#"got [{"value": "alice"}, {"name": "TOKEN"}]"#),
    ] {
        assert_eq!(redactor.text(text), redacted);
    }
}

#[test]
fn a_value_is_redacted_by_its_name() {
    let redactor = Redactor::default();
    for (text, redacted) in [
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("Cookie: a=b; c=d", "Cookie: ***"),
        ("X-Api-Key: hunter2", "X-Api-Key: ***"),
        ("GITHUB_TOKEN=${TOKEN}", "GITHUB_TOKEN=${TOKEN}"),
        ("PWD=/srv/app", "PWD=/srv/app"),
        ("DB_PWD=x7-y", "DB_PWD=***"),
        ("password_v2: x7-y", "password_v2: ***"),
        ("PATH=/home/jane/bin:/usr/bin", "PATH=/home/***/bin:/usr/bin"),
        ("Content-Type: application/json", "Content-Type: application/json"),
        ("密码: abc123", "密码: ***"),
    ] {
        assert_eq!(redactor.text(text), redacted);
    }
}

/// With the key that a rule file sets, and one of the process.
fn with_key(file: &str, fallback: &[u8]) -> Result<Redactor, RuleError> {
    let rules = Rules::parse(&format!("id_key = \"{file}\""))?;
    Redactor::new(rules.fallback_id_key(fallback))
}

#[test]
fn an_id_becomes_the_same_hash_everywhere() {
    let redactor = with_key("sixteen bytes or more", b"").unwrap();
    let hash = redactor.id("session", "abc-1");
    assert!(hash.len() == 40 && hash.starts_with("session_"), "{hash}");
    assert_ne!(redactor.id("tool_call", "abc-1")[10..], hash[8..]);
    assert_eq!(redactor.json(br#"{"sessionId": "abc-1"}"#), format!(r#"{{"sessionId": "{hash}"}}"#));
    assert_eq!(redactor.text("session_id=abc-1 ok"), format!("session_id={hash} ok"));
    let hash = redactor.id("session", "1234");
    assert_eq!(redactor.json(br#"{"session_id": 1234}"#), format!(r#"{{"session_id": "{hash}"}}"#));
    let inner = redactor.json(br#"{"a": "{\"session_id\": 1234}"}"#).into_owned();
    assert_eq!(inner, format!(r#"{{"a": "{{\"session_id\": \"{hash}\"}}"}}"#));
}

#[test]
fn an_id_is_hashed_whatever_it_looks_like() {
    let redactor = with_key("sixteen bytes or more", b"").unwrap();
    let own = redactor.id("session", "abc-1");
    for id in [
        "a1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0",
        "4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "session_4bf92f3577b34da6a3ce929d0e0e4736",
        &own,
        "1234567890",
    ] {
        let hash = redactor.id("session", id);
        assert!(hash != id && hash.len() == 40 && hash == redactor.id("session", id), "{id}: {hash}");
        assert_eq!(
            redactor.json(format!(r#"["", {{"sessionId":"{id}"}}]"#).as_bytes()),
            format!(r#"["", {{"sessionId":"{hash}"}}]"#)
        );
        assert_eq!(redactor.text(&format!("session_id={id}\n")), format!("session_id={hash}\n"));
        let call = redactor.id("tool_call", id);
        assert_eq!(redactor.text(&format!("tool_call_id: {id} failed")), format!("tool_call_id: {call} failed"));
    }
}

#[test]
fn an_id_that_has_lost_a_part_is_replaced_once() {
    let redactor = Redactor::default();
    let key = "session_id:-----BEGIN PRIVATE KEY-----a0aA0Apassword0aﹶpassword";
    let once = redactor.text(key);
    assert_eq!(once, "session_id:***ﹶpassword");
    for (text, redacted) in [(&*once, "session_id:***"), ("tool_call_id=a*** ok", "tool_call_id=*** ok")] {
        assert_eq!(redactor.text(text), redacted);
        assert_eq!(redactor.text(redacted), redacted);
    }
    let json = redactor.json(br#"{"sessionId": "a***"}"#).into_owned();
    assert_eq!(json, r#"{"sessionId": "***"}"#);
    assert_eq!(redactor.json(json.as_bytes()), json);
}

#[test]
fn a_value_of_several_words_is_hidden_to_its_end() {
    let redactor = Redactor::default();
    for (text, redacted) in [
        ("db:\n  signing_key: 4934 6378 7133 3086\n  port: 5432", "db:\n  signing_key: ***\n  port: 5432"),
        (r#"cut: ["tool", "--user.password", "hunter2", "-v""#, r#"cut: ["tool", "--user.password", "***", "-v""#),
        ("give a --password. Then", "give a --password. Then"),
        (r#"stderr="{\"v\": \"glsa\\u005f5fxziMiKM8kvwBvGphfZjgMowIo9slyO\"}""#, r#"stderr="{\"v\": \"***\"}""#),
        ("pay --token 4934-6378-7133-3086 now", "pay --token *** now"),
        ("token: Bearer abcdefgh12345678 end", "token: *** end"),
        ("api_key=Basic YWxpY2U6aHVudGVyMg== end", "api_key=*** end"),
        ("password: 4934 of 6378", "password: *** of 6378"),
    ] {
        assert_eq!(redactor.text(text), redacted);
    }
}

#[test]
fn what_follows_a_mask_is_not_hidden_when_text_is_redacted_again() {
    let redactor = Redactor::default();
    for (text, redacted) in [
        ("password=hunter2 user=bob", "password=*** user=bob"),
        ("token: s3cr3t-x7 next", "token: *** next"),
        ("run --token s3cr3t-x7 next", "run --token *** next"),
        ("password=***hunter2 next", "password=*** next"),
        ("session_id\"4111111111111111:sk-\"", "session_id\"***:sk-\""),
        ("session_id******: abc", "session_id******: abc"),
        // Markdown's asterisks are no mask.
        ("**password:** hunter2", "**password:** ***"),
        ("***password:*** hunter2", "***password:*** ***"),
        ("- ***The password***: hunter2", "- ***The password***: ***"),
    ] {
        assert_eq!(redactor.text(text), redacted);
        assert_eq!(redactor.text(redacted), redacted);
    }
}

#[test]
fn the_key_of_a_rule_file_wins_over_that_of_the_process() {
    let hash = |redactor: Redactor| redactor.id("session", "abc-1");
    let file = hash(with_key("sixteen bytes or more", b"one").unwrap());
    assert_eq!(hash(with_key("sixteen bytes or more", b"other").unwrap()), file);
    let without = |key: &[u8]| hash(Redactor::new(Rules::default().fallback_id_key(key)).unwrap());
    assert_eq!(without(b"one"), without(b"one"));
    assert_ne!(without(b"one"), without(b"other"));
    assert_ne!(without(b"one"), file);
    assert_ne!(hash(Redactor::default()), hash(Redactor::default()), "a random key");
}

#[test]
fn json_keeps_everything_else_byte_for_byte() {
    let redactor = Redactor::default();
    for (json, redacted) in [
        (r#" { "a" : 1.0e5 , "password" : "x" } "#, r#" { "a" : 1.0e5 , "password" : "***" } "#),
        (r#"{"p\u0061ssword": "x\"y", "t": true}"#, r#"{"p\u0061ssword": "***", "t": true}"#),
        (r#"{"password": null, "secret": true, "token": 12}"#, r#"{"password": null, "secret": true, "token": "***"}"#),
        (r#"{"a": "{\"pin\": 1234}"}"#, r#"{"a": "{\"pin\": \"***\"}"}"#),
        (r#"{"u": "https:\/\/bob:x7y\/@host\/p"}"#, r#"{"u": "https:\/\/bob:x7y\/@host\/p"}"#),
        (
            r#"{"credentials": {"user": "bob", "keys": ["a", 1]}}"#,
            r#"{"credentials": {"user": "***", "keys": ["***", "***"]}}"#,
        ),
        (r#"[4111111111111111, "4111 1111 1111 1111"]"#, r#"["***", "***"]"#),
    ] {
        assert_eq!(redactor.json(json.as_bytes()), redacted);
    }
}

#[test]
fn a_stream_lets_out_lines_and_holds_back_what_may_go_on() {
    let redactor = Redactor::default();
    let mut stream = redactor.stream();
    assert_eq!(stream.push("one\ntw"), "one\n");
    assert_eq!(stream.push("o password=hun"), "");
    assert_eq!(stream.push("ter2\n-----BEGIN PRIVATE KEY-----\nMIIE"), "two password=***\n");
    assert_eq!(stream.push("vQIBADANBgkqhkiG9w0BAQEFAASC\n"), "");
    assert_eq!(stream.push("-----END PRIVATE KEY-----\nafter\n"), "***\nafter\n");
    assert_eq!(stream.push("rest"), "");
    assert_eq!(stream.finish(), "rest");
}

#[test]
fn a_stream_holds_back_a_bounded_amount() {
    let redactor = Redactor::default();
    let mut stream = redactor.stream();
    let line = "A1b2C3d4".repeat(8) + "\n";
    let (mut pushed, mut out) = (0, String::new());
    out += &stream.push("-----BEGIN RSA PRIVATE KEY-----\n");
    while pushed < 300 << 10 {
        out += &stream.push(&line);
        pushed += line.len();
    }
    out += &stream.push("-----END RSA PRIVATE KEY-----\nafter\n");
    out += &stream.finish();
    assert_eq!(out, "***\nafter\n");
    let mut stream = redactor.stream();
    let mut out = 0;
    for _ in 0..1_000 {
        out += stream.push(&"word ".repeat(100)).len();
    }
    assert!(out > 500_000 - (80 << 10), "{out}");
}

#[test]
fn a_parameter_that_is_no_secret_does_not_hide_the_next_one() {
    let redactor = Redactor::default();
    let text = "https://x.example/?key=a&code=1&sig=aB3dE5fG7hI9jK1lM3nO&auth=no";
    assert_eq!(redactor.text(text), "https://x.example/?key=a&code=1&sig=***&auth=no");
    assert_eq!(redactor.text("name: x, name: DB_PASSWORD, value: hunter2"), "name: x, name: DB_PASSWORD, value: ***");
}

/// Asserts what texts become, and that this stays as it is.
fn assert_redacted(cases: &[(&str, &str)]) {
    let redactor = Redactor::default();
    for (text, redacted) in cases {
        assert_eq!(redactor.text(text), *redacted, "{text}");
        assert_eq!(redactor.text(redacted), *redacted, "again: {redacted}");
    }
}

#[test]
fn a_value_below_its_name_is_hidden() {
    assert_redacted(&[
        ("password: |\n  hunter2-x\nuser: bob", "password: |\n  ***\nuser: bob"),
        ("db:\n  password: >-\n    correct horse\n\n    battery\n  port: 1", "db:\n  password: >-\n    ***\n  port: 1"),
        (
            "- password: |2+ # folded\r\n    hunter2\r\n  user: bob",
            "- password: |2+ # folded\r\n    ***\r\n  user: bob",
        ),
        ("password:\n  hunter2x\nuser: bob", "password:\n  ***\nuser: bob"),
        (
            "password: # of the database\n\n  \"hunter2\"\nuser: bob",
            "password: # of the database\n\n  \"***\"\nuser: bob",
        ),
        ("passwords:\n  - hunter2x\n  - 'other'\nuser: bob", "passwords:\n  - ***\nuser: bob"),
        ("tokens:\napi_keys:\n- aB3dE5fG7\n- x\nuser: bob", "tokens:\napi_keys:\n- ***\nuser: bob"),
        ("passwords: [hunter2x, other]", "passwords: [***]"),
        ("password: !!str hunter2", "password: !!str ***"),
        ("password: &db hunter2 # x", "password: &db *** # x"),
        ("password: !!str &db >-\n  hunter2\nx: 1", "password: !!str &db >-\n  ***\nx: 1"),
        (r#"text="password: |\n  hunter2\nuser: bob""#, r#"text="password: |\n  ***\nuser: bob""#),
        ("const API_KEY: &str =\n    \"hunter2\";", "const API_KEY: &str =\n    \"***\";"),
        ("password = \"\"\"\nhunter2\n\"\"\"\nuser = 1", "password = \"\"\"***\"\"\"\nuser = 1"),
        ("password = '''hunter2'''", "password = '''***'''"),
    ]);
}

#[test]
fn what_stands_below_a_name_and_is_no_secret_stays() {
    for text in [
        "password: |\n  Enter the password of your account.\nuser: bob",
        "password: |\nuser: bob\n",
        "password:\n  type: string\n  description: Of the user\n",
        "Args:\n    password:\n        The password of the user, e.g. abc123x.\n    token: (str)\n",
        "secrets:\n  - db_password\n  - source: server-2025\n",
        "secrets: |\n  GIT_TOKEN=${{ secrets.GIT_TOKEN }}\n  NPM_TOKEN=$NPM_TOKEN\n",
        "password: ['', Validators.required, Validators.minLength(8)]",
        "password: [\"required\", \"string\", \"min:10\"]",
        "fn f(token: &mut Lexer2, password: &str) {}",
        "| password: | the secret |\n|---|---|\n  x123456",
        "password:\n  <redacted>\ntoken:\n  (optional)\n",
        "password: !secret db_password\n",
        "passwords:\n  - \"can't be blank\"\n  - is too short\n",
        "password = prompt(\"Enter 2 passwords\"); token(\"IDENT\"); cy.get(\"#password\").type(\"x\")",
        "token type = \"bearer2\"; password field = \"x1y2z3\"; DECLARE @name VARCHAR(20) = 'token'",
        "  token:\n    process.env.API_TOKEN2,\n",
    ] {
        let redacted = Redactor::default().text(text).into_owned();
        assert_eq!(redacted, text);
    }
}

#[test]
fn a_value_in_an_element_a_form_or_a_part_is_hidden() {
    assert_redacted(&[
        ("<password><![CDATA[a<b>&]]></password>", "<password><![CDATA[***]]></password>"),
        (
            "<a>\n <password>\n  <![CDATA[hunter2]]>\n </password></a>",
            "<a>\n <password>\n  <![CDATA[***]]>\n </password></a>",
        ),
        ("<s:Password Type=\"x:y\">hunter2</s:Password>", "<s:Password Type=\"x:y\">***</s:Password>"),
        ("<password>\n  hunter2\n</password>", "<password>\n  ***\n</password>"),
        ("user[password]=hunter2&a=b", "user[password]=***&a=b"),
        ("a=b&user[0][password][]=hunter2&b=c", "a=b&user[0][password][]=***&b=c"),
        ("user%5Bpassword%5D=hunter2&a=b", "user%5Bpassword%5D=***&a=b"),
        ("passwords[0]=hunter2&a=b", "passwords[0]=***&a=b"),
        (
            "--X\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter2\r\n--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--X--",
            "--X\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n***\r\n--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--X--",
        ),
        (
            "content-disposition: form-data; name=token; filename=\"t.txt\"\nContent-Type: text/plain\n\none\ntwo\n--X",
            "content-disposition: form-data; name=token; filename=\"t.txt\"\nContent-Type: text/plain\n\n***\n--X",
        ),
        (
            "Authorization: Digest username=\"bob\", realm=\"r\",\r\n  response=\"6629fae4\", cnonce=\"0a4f\"\r\nHost: x",
            "Authorization: Digest ***\r\nHost: x",
        ),
        (
            "curl -H \"Authorization: Digest username=\\\"bob\\\", response=\\\"6629\\\"\" -v",
            "curl -H \"Authorization: Digest ***\" -v",
        ),
        (
            "curl -H \"Authorization: Basic YWJjOmQ=\" -H \"Accept: a\"",
            "curl -H \"Authorization: Basic ***\" -H \"Accept: a\"",
        ),
        ("name=%E5%AF%86%E7%A0%81&value=hunter2", "name=%E5%AF%86%E7%A0%81&value=***"),
        ("x access_token$production$1yp8k2q9$7a1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e y", "x *** y"),
    ]);
    let json = r#"{"name": "\u5bc6\u7801", "value": "hunter2"}"#;
    assert_eq!(Redactor::default().json(json.as_bytes()), json.replace("hunter2", "***"));
    let list = r#"["\u002d-p\u0061ssword", "hunter2"]"#;
    assert_eq!(Redactor::default().json(list.as_bytes()), list.replace("hunter2", "***"));
}

#[test]
fn a_long_value_is_hidden_to_its_end() {
    let long = "aB3 dE5-".repeat(200);
    for (before, after) in [
        ("<password><![CDATA[", "]]></password>"),
        ("--X\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n", "\r\n--X--"),
        ("db:\n  password:\n    \"", "\"\n  port: 1"),
        ("password: !!str \"", "\"\nuser: bob"),
        ("ds.setPassword(\"", "\");"),
    ] {
        let redacted = Redactor::default().text(&format!("{before}{long}{after}")).into_owned();
        assert_eq!(redacted, format!("{before}***{after}"));
    }
}

#[test]
fn a_string_in_code_is_hidden_by_the_name_that_it_is_given_to() {
    assert_redacted(&[
        ("password: str = 'hunter'", "password: str = '***'"),
        ("let password: string = \"hunter\";", "let password: string = \"***\";"),
        ("let apiKey: String? = \"hunter\"", "let apiKey: String? = \"***\""),
        ("const API_KEY: &'static str = r#\"hunter\"#;", "const API_KEY: &'static str = r#\"***\"#;"),
        ("token: Optional[str] = Field(\"x\")", "token: Optional[str] = Field(\"x\")"),
        ("private token: string | null = `hunter`", "private token: string | null = `***`"),
        (
            "let password: SecretString = SecretString::from(\"hunter\");",
            "let password: SecretString = SecretString::from(\"***\");",
        ),
        ("var password string = \"hunter\"", "var password string = \"***\""),
        ("var password = []byte(\"hunter\")", "var password = []byte(\"***\")"),
        ("private static final String PASSWORD = \"hunter\";", "private static final String PASSWORD = \"***\";"),
        ("char password[16] = \"hunter\";", "char password[16] = \"***\";"),
        ("password: Final = b\"hunter\"", "password: *** = b\"***\""),
        ("os.Setenv(\"API_SECRET\", \"hunter\")", "os.Setenv(\"API_SECRET\", \"***\")"),
        (
            "env::set_var(\n    \"API_SECRET\",\n    \"hunter\",\n);",
            "env::set_var(\n    \"API_SECRET\",\n    \"***\",\n);",
        ),
        ("System.setProperty(\"db.password\", \"hunter\");", "System.setProperty(\"db.password\", \"***\");"),
        ("define('DB_PASSWORD', 'hunter');", "define('DB_PASSWORD', '***');"),
        ("putenv(\"API_SECRET=hunter\")", "putenv(\"API_SECRET=***\")"),
        ("os.environ[\"API_SECRET\"] = \"hunter\"", "os.environ[\"API_SECRET\"] = \"***\""),
        ("process.env.API_SECRET = 'hunter'", "process.env.API_SECRET = '***'"),
        ("config.set('db', 'password', 'hunter2x')", "config.set('db', 'password', '***')"),
        ("map.put(\"token\", \"aB3dE5fG7\")", "map.put(\"token\", \"***\")"),
        ("ds.setPassword(\"hunter\");", "ds.setPassword(\"***\");"),
        ("DECLARE @password NVARCHAR(50) = N'hunter2'", "DECLARE @password NVARCHAR(50) = N'***'"),
        ("Dim password As String = \"hunter2\"", "Dim password As String = \"***\""),
        ("setx API_SECRET \"hunter2\"", "setx API_SECRET \"***\""),
        ("<string name=\"api_key\">hunter2</string>", "<string name=\"api_key\">***</string>"),
        ("h.Set(\"Authorization\", \"Bearer hunter2x\")", "h.Set(\"Authorization\", \"Bearer ***\")"),
    ]);
}
