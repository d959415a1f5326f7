//! Text without secrets that resembles text with secrets.

use super::random::{ALNUM, Random};

/// Returns a text without a secret.
pub fn innocent(random: &mut Random) -> String {
    let makers: [fn(&mut Random) -> String; 6] = [prose, code, number, encoded, record, line];
    let weights = [0, 0, 1, 1, 2, 3, 3, 4, 5, 5];
    makers[*random.pick(&weights)](random)
}

/// Sentences in many languages, some about secrets.
const PROSE: [&str; 56] = [
    "The password must have at least twelve characters, one of them a digit.",
    "Forgot your password? Reset it on the next page.",
    "Password: must be at least 8 characters long.",
    "The token expired before the request was sent.",
    "token: expired",
    "A bearer of good news came to the village.",
    "Bearer authentication is described in RFC 6750.",
    "Basic authentication sends the name and the password with every request.",
    "The secret of a good soup is time.",
    "The secret: be patient and stir often.",
    "Key findings: the model uses fewer tokens than last year.",
    "Please rotate the API key every ninety days.",
    "Each token costs 0.002 cents; max_tokens is 4096 by default.",
    "The tokenizer splits text into tokens, and token_count says how many there are.",
    "This is the key to the city, said the mayor.",
    "The cookie crumbled. Cookies: flour, sugar, butter.",
    "Authorization is required for all endpoints below /admin.",
    "authorization: required",
    "An access token has a lifetime of one hour.",
    "Secret Santa is on Friday; bring a small present.",
    "The PIN pad was broken, so we paid in cash.",
    "He passed the test on the third of May 2024 at 10:45:30.",
    "Run `cargo test -p gateway -- --nocapture` and read the output.",
    "See https://example.com/docs/auth#tokens for how tokens are made.",
    "Open http://localhost:8080/login?next=/home and sign in.",
    "Write to the desk-bound team; the task-force meets at noon.",
    "The pass-through device has pins 3, 5 and 13.",
    "Chapter 12: The Credentials of the Ambassador",
    "Session 4 of the workshop begins at 14:30.",
    "Die Sitzung beginnt um 9 Uhr; das Passwort steht auf der Einladung.",
    "Das Passwort ist falsch. Bitte versuchen Sie es noch einmal.",
    "Der Schlüssel liegt unter der Matte, wie immer.",
    "Le mot de passe est incorrect, veuillez réessayer.",
    "La clé est sous le paillasson depuis hier soir.",
    "La contraseña debe tener ocho caracteres.",
    "La reunión es el martes a las diez y media.",
    "密码必须至少包含八个字符。",
    "请输入您的密码，然后点击登录按钮。",
    "令牌已过期，请重新登录。",
    "会议在星期二上午十点举行。",
    "パスワードは八文字以上でなければなりません。",
    "会議は火曜日の午前十時に始まります。",
    "Пароль должен содержать не менее восьми символов.",
    "Встреча начнётся во вторник в десять часов.",
    "비밀번호는 여덟 자 이상이어야 합니다.",
    "A senha deve ter pelo menos oito caracteres.",
    "كلمة المرور غير صحيحة.",
    "The author of this keyboard driver is unknown.",
    "Compass, compassion, passenger and password policy are four entries.",
    "Use the signature of the function: fn read(path: &str) -> Result<String>.",
    "The primary key is 7 and the foreign key is 12.",
    "Our public key infrastructure uses certificates.",
    "In 2023 the index rose by 12.5 % to 15,977.37 points.",
    "Add 200 g flour, 2 eggs and 0.5 l milk; bake for 45 min at 180 °C.",
    "The hash of the commit is in the log; the id of the session is not.",
    "As a token of thanks they gave him a watch.",
];

fn prose(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    (0..count).map(|_| *random.pick(&PROSE)).collect::<Vec<_>>().join(" ")
}

const CODE: [&str; 68] = [
    "token = get_token()",
    "let token = lexer.next_token()?;",
    "password = getpass.getpass(\"Password: \")",
    "api_key = os.environ[\"OPENAI_API_KEY\"]",
    "api_key=os.getenv('API_KEY')",
    "const token = await fetchToken(user);",
    "if token == expected_token:",
    "def login(user: str, password: str) -> Token:",
    "fn login(user: &str, password: &str) -> Result<Token, Error> {",
    "password: Optional[str] = None",
    "password: string;",
    "  token: String,",
    "self.token = token",
    "client = Client(api_key=api_key, token=self.token)",
    "headers[\"Authorization\"] = f\"Bearer {token}\"",
    "Authorization: Bearer ${TOKEN}",
    "Authorization: Bearer <token>",
    "export PATH=$PATH:/usr/local/bin",
    "export GITHUB_TOKEN=$(gh auth token)",
    "password: ${{ secrets.DB_PASSWORD }}",
    "secret: {{ vault_secret }}",
    "token := ctx.Value(tokenKey)",
    "for token in tokens: count[token] += 1",
    "tokens = tokenizer.encode(text); token_count = len(tokens)",
    "max_tokens=4096, temperature=0.7, top_p=0.95",
    "primary_key=True, unique=True, default=uuid4",
    "SELECT key, value FROM settings WHERE key = 'theme'",
    "CREATE TABLE users (id INT PRIMARY KEY, password VARCHAR(255) NOT NULL)",
    "a{color:#ff00aa;background:#0f0}.sk-circle-fade-dot{animation:sk-circle-fade 1.2s infinite}",
    ".btn-primary:hover{border-color:rgba(0,0,0,.125);transition:all .3s ease-in-out}",
    "!function(e,t){\"use strict\";var n=e.token,r=t.key;return n===r?t:e}(window,document);",
    "function(e){var t=e.password,n=e.token;this.setState({password:t,token:n})}",
    "<input type=\"password\" name=\"password\" id=\"password\" placeholder=\"Password\">",
    "<label for=\"password\">Password</label>",
    "import { authenticate } from './auth/token-service';",
    "#include <openssl/ssl.h>",
    "public_key = load_pem_public_key(data)",
    "assert parse(\"a: b\") == {\"a\": \"b\"}",
    "match token.kind { TokenKind::Ident => self.ident(), _ => self.error() }",
    "key = f\"{prefix}:{user_id}\"",
    "cache.set(key=\"user:42:profile\", value=profile, ttl=3600)",
    "git commit -m 'Rename token to lexeme' --author='A B <a@b.example>'",
    "docker run --rm -p 8080:80 -u 1000:1000 -v /srv/data:/data nginx:1.27",
    "kubectl get secret db-credentials -o yaml",
    "curl -sS -X POST http://127.0.0.1:8000/skills/echo:invoke -d '{\"input\": {}}'",
    "/usr/lib/python3.12/site-packages/requests/auth.py:86",
    "at Object.<anonymous> (/app/node_modules/token-types/lib/index.js:12:34)",
    "thread 'main' panicked at src/main.rs:10:5: index out of bounds",
    "def f(password: str, token: Optional[str] = None) -> bool:",
    "let token: Token<'_> = self.next()?;",
    "password?: string;",
    "password: str = Field(default=None, min_length=8)",
    "const token: string = localStorage.getItem(\"token\");",
    "os.Setenv(\"API_KEY\", apiKey)",
    "os.getenv(\"API_KEY\", \"\")",
    "t(\"password\", \"Password\")",
    "errors.add(\"password\", \"is too short\")",
    "if field in (\"password\", \"token\", \"api_key\"):",
    "if (token === '=') { count[token] = count[token] + 1; }",
    "password: |\n  Enter the password of your account.\nuser: bob\n",
    "password:\n  type: string\n  format: password\n",
    "secrets:\n  - db_password\n  - api_token\n",
    "const schema = { password: [required(), minLength(8)], token: [] };",
    "Vec<Token>\n    where T: Into<Token>",
    "<input name=\"password\" type=\"password\"> <token class=\"x\"/>",
    "Authorization: Digest <credentials>",
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
];

fn code(random: &mut Random) -> String {
    (*random.pick(&CODE)).to_owned()
}

/// Returns a number with the look of a card number and a wrong checksum.
fn no_card(random: &mut Random) -> String {
    loop {
        let text = format!("{}{}", random.pick(&["4", "51", "34", "6011", "9", "1", "7"]), random.digits(15));
        let number = &text[..16];
        let sum: u32 = number.bytes().rev().enumerate().map(|(at, digit)| doubled(at, digit)).sum();
        if !sum.is_multiple_of(10) {
            return number.to_owned();
        }
    }
}

pub(super) fn doubled(at: usize, digit: u8) -> u32 {
    let value = u32::from(digit - b'0') * if at.is_multiple_of(2) { 1 } else { 2 };
    value / 10 + value % 10
}

fn number(random: &mut Random) -> String {
    match random.below(12) {
        0 => format!("md5 {}", random.hex(32)),
        1 => format!("commit {}", random.hex(40)),
        2 => format!("sha256:{}", random.hex(64)),
        3 => random.uuid(),
        4 => format!("Order number {}", no_card(random)),
        5 => format!("at 17{}", random.digits(11)),
        6 => format!(
            "IBAN DE{} {} {} {} {} {}",
            random.digits(2),
            random.digits(4),
            random.digits(4),
            random.digits(4),
            random.digits(4),
            random.digits(2)
        ),
        7 => format!("#{} #{}", random.hex(6), random.hex(3)),
        8 => format!("v{}.{}.{}-rc.{}", random.below(20), random.below(40), random.below(90), random.below(9)),
        9 => format!("trace_id={} span_id={}", random.hex(32), random.hex(16)),
        10 => format!(
            "{}.{}.{}.{}:{}",
            random.below(256),
            random.below(256),
            random.below(256),
            random.below(256),
            random.below(65536)
        ),
        _ => format!("{}e-{} {}", random.digits(9), random.below(20), random.digits(22)),
    }
}

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encoded(random: &mut Random) -> String {
    match random.below(6) {
        0 => {
            let length = 200 + random.below(2_000);
            format!("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{}", random.text(BASE64, length))
        }
        1 => {
            let length = 200 + random.below(2_000);
            format!("/9j/4AAQSkZJRgABAQEAYABgAAD/2wBDAAgGBgcG{}", random.text(BASE64, length))
        }
        2 => format!("\"integrity\": \"sha512-{}==\"", random.text(BASE64, 86)),
        3 => format!("\"integrity\": \"sha384-{}\"", random.text(BASE64, 64)),
        4 => format!("etag: W/\"{}\"", random.hex(32)),
        _ => format!("https://cdn.example.com/assets/index-{}.js?v={}", random.text(ALNUM, 8), random.hex(8)),
    }
}

fn record(random: &mut Random) -> String {
    match random.below(8) {
        0 => format!(r#"{{"token_count": {}, "max_tokens": {}, "tokens": ["the", "cat"], "tokenizer": "bpe"}}"#, random.below(9_999), random.below(9_999)),
        1 => format!(r#"{{"author": "A. Writer", "keyboard": "qwerty", "primary_key": {}, "public_key": "none"}}"#, random.below(99)),
        2 => format!(r#"{{"password_policy": "at least {} characters", "has_password": true}}"#, random.below(30)),
        3 => format!(r#"{{"id": "{}", "etag": "{}", "next_page_token": null}}"#, random.uuid(), random.hex(32)),
        4 => r#"{"type": "object", "properties": {"password": {"type": "string", "description": "Of the user"}}, "required": ["password"]}"#.to_owned(),
        5 => format!(r#"{{"usage": {{"prompt_tokens": {}, "completion_tokens": {}, "total_tokens": {}}}}}"#, random.below(999), random.below(999), random.below(999)),
        6 => format!(r#"{{"key": "theme", "value": "dark", "order": "{}"}}"#, no_card(random)),
        _ => format!(r#"{{"password": null, "token": false, "pin": "A{}", "signature": "fn f(a, b)"}}"#, random.below(9)),
    }
}

fn line(random: &mut Random) -> String {
    match random.below(7) {
        0 => format!(
            "2026-01-{:02}T12:{:02}:01Z INFO request done status=200 bytes={}",
            1 + random.below(28),
            random.below(60),
            random.digits(6)
        ),
        1 => format!("GET /api/v1/items/{}?page={}&sort=name HTTP/1.1", random.uuid(), random.below(99)),
        2 => format!("  File \"/srv/app/main.py\", line {}, in <module>", random.below(999)),
        3 => format!("drwxr-xr-x 2 root root 4096 Jan {} 12:30 secrets", 1 + random.below(28)),
        4 => format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\nX-Request-Id: {}",
            random.below(9_999),
            random.uuid()
        ),
        5 => format!("npm warn deprecated token-types@{}.0.1: use lexer-types instead", random.below(9)),
        _ => format!("[{}] worker {} ready in {} ms", random.digits(10), random.below(99), random.below(999)),
    }
}
