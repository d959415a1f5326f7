//! Secrets of many shapes.

use super::random::{ALNUM, Random};

/// A secret and the name of its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The name of the shape, as listed in [`SHAPES`].
    pub shape: &'static str,
    /// The secret itself.
    pub text: String,
    /// Whether its look suffices to recognize it. Other secrets need a name.
    pub is_known_by_look: bool,
}

/// A name, a function that generates a secret, and whether the look of the secret suffices to recognize it.
pub type Shape = (&'static str, fn(&mut Random) -> String, bool);

const TOKEN: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn jwt(random: &mut Random) -> String {
    let header = random.pick(&[
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9",
        "eyJhbGciOiJFUzI1NiJ9",
    ]);
    format!("{header}.eyJzdWIiOiI{}.{}", random.token(40), random.text(TOKEN, 43))
}

fn pem(random: &mut Random) -> String {
    let label = random.pick(&[
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ]);
    let lines: Vec<_> = (0..3 + random.below(6)).map(|_| random.text(BASE64, 64)).collect();
    format!("-----BEGIN {label}-----\n{}\n{}==\n-----END {label}-----", lines.join("\n"), random.text(BASE64, 22))
}

fn card(random: &mut Random) -> String {
    loop {
        let text = format!("{}{}", random.pick(&["4", "51", "55", "6011", "2221"]), random.digits(15));
        let number = &text[..16];
        let sum: u32 = number.bytes().rev().enumerate().map(|(at, digit)| super::innocent::doubled(at, digit)).sum();
        if sum.is_multiple_of(10) {
            let separator = random.pick(&["", " ", "-"]);
            return [&number[..4], &number[4..8], &number[8..12], &number[12..]].join(separator);
        }
    }
}

fn password(random: &mut Random) -> String {
    let word = random.pick(&["winter", "Falcon", "meadow", "Harbor", "copper"]);
    let sign = random.pick(&["!", "#", "_", "-", "."]);
    format!("{word}{sign}{}{}", random.digits(3), random.token(4))
}

/// The shapes: provider keys, then tokens, keys and numbers, then secrets that need a name.
pub const SHAPES: [Shape; 97] = [
    ("AWS access key", |r| format!("AKIA{}", r.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)), true),
    ("AWS temporary key", |r| format!("ASIA{}", r.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)), true),
    ("AWS session token", |r| format!("IQoJb3JpZ2lu{}", r.text(BASE64, 120)), true),
    ("Bedrock key", |r| format!("ABSK{}", r.token(128)), true),
    ("Google API key", |r| format!("AIza{}", r.token(35)), true),
    ("Google OAuth token", |r| format!("ya29.{}", r.text(TOKEN, 60)), true),
    ("Google client secret", |r| format!("GOCSPX-{}", r.token(28)), true),
    ("Azure client secret", |r| format!("{}8Q~{}", r.token(3), r.token(34)), true),
    ("OpenAI project key", |r| format!("sk-proj-{}T3BlbkFJ{}", r.text(TOKEN, 74), r.text(TOKEN, 74)), true),
    ("OpenAI key", |r| format!("sk-{}T3BlbkFJ{}", r.token(20), r.token(20)), true),
    ("OpenAI session", |r| format!("sess-{}", r.token(40)), true),
    ("Anthropic key", |r| format!("sk-ant-api03-{}AA", r.text(TOKEN, 93)), true),
    ("DashScope key", |r| format!("sk-{}", r.hex(32)), true),
    ("Groq key", |r| format!("gsk_{}", r.token(52)), true),
    ("xAI key", |r| format!("xai-{}", r.token(80)), true),
    ("Perplexity key", |r| format!("pplx-{}", r.token(48)), true),
    ("OpenRouter key", |r| format!("sk-or-v1-{}", r.hex(64)), true),
    ("Hugging Face token", |r| format!("hf_{}", r.token(34)), true),
    ("Replicate token", |r| format!("r8_{}", r.token(37)), true),
    ("Fireworks key", |r| format!("fw_{}", r.token(24)), true),
    ("NVIDIA key", |r| format!("nvapi-{}", r.text(TOKEN, 64)), true),
    ("Pinecone key", |r| format!("pcsk_{}_{}", r.token(6), r.token(62)), true),
    ("LangSmith key", |r| format!("lsv2_pt_{}_{}", r.hex(32), r.hex(10)), true),
    ("Tavily key", |r| format!("tvly-dev-{}", r.token(32)), true),
    ("Zhipu key", |r| format!("{}.{}", r.hex(32), r.token(16)), true),
    ("GitHub token", |r| format!("ghp_{}", r.token(36)), true),
    ("GitHub server token", |r| format!("ghs_{}", r.token(36)), true),
    ("GitHub fine-grained token", |r| format!("github_pat_{}_{}", r.token(22), r.token(59)), true),
    ("GitLab token", |r| format!("glpat-{}", r.token(20)), true),
    ("GitLab runner token", |r| format!("glrt-{}", r.token(20)), true),
    ("Slack bot token", |r| format!("xoxb-{}-{}-{}", r.digits(12), r.digits(13), r.token(24)), true),
    ("Slack app token", |r| format!("xapp-1-A{}-{}-{}", r.text(UPPER, 10), r.digits(13), r.hex(64)), true),
    ("Discord bot token", |r| format!("MT{}.{}.{}", r.token(24), r.token(6), r.text(TOKEN, 38)), true),
    ("Telegram bot token", |r| format!("{}:AA{}", 1_000_000_000 + r.below(8_000_000_000), r.text(TOKEN, 33)), true),
    ("Stripe key", |r| format!("sk_live_{}", r.token(24)), true),
    ("Stripe restricted key", |r| format!("rk_live_{}", r.token(98)), true),
    ("Stripe webhook secret", |r| format!("whsec_{}", r.token(32)), true),
    ("Twilio key", |r| format!("SK{}", r.hex(32)), true),
    ("SendGrid key", |r| format!("SG.{}.{}", r.token(22), r.token(43)), true),
    ("Mailgun key", |r| format!("key-{}", r.hex(32)), true),
    ("npm token", |r| format!("npm_{}", r.token(36)), true),
    ("openskill key", |r| format!("osk_{}_{}", r.hex(16), r.hex(64)), true),
    ("PyPI token", |r| format!("pypi-AgEIcHlwaS5vcmc{}", r.text(TOKEN, 120)), true),
    ("crates.io token", |r| format!("cio{}", r.token(32)), true),
    ("Docker token", |r| format!("dckr_pat_{}", r.token(27)), true),
    ("DigitalOcean token", |r| format!("dop_v1_{}", r.hex(64)), true),
    ("Netlify token", |r| format!("nfp_{}", r.token(36)), true),
    ("Supabase token", |r| format!("sbp_{}", r.hex(40)), true),
    ("Supabase secret", |r| format!("sb_secret_{}", r.token(31)), true),
    ("PlanetScale token", |r| format!("pscale_tkn_{}", r.token(43)), true),
    ("Databricks token", |r| format!("dapi{}", r.hex(32)), true),
    ("Doppler token", |r| format!("dp.pt.{}", r.token(43)), true),
    ("Vault token", |r| format!("hvs.{}", r.text(TOKEN, 95)), true),
    ("Terraform token", |r| format!("{}.atlasv1.{}", r.token(14), r.text(TOKEN, 64)), true),
    ("Linear key", |r| format!("lin_api_{}", r.token(40)), true),
    ("Notion token", |r| format!("ntn_{}{}", r.digits(11), r.token(35)), true),
    ("Figma token", |r| format!("figd_{}", r.text(TOKEN, 40)), true),
    ("Shopify token", |r| format!("shpat_{}", r.hex(32)), true),
    ("Square token", |r| format!("sq0atp-{}", r.text(TOKEN, 22)), true),
    ("Atlassian token", |r| format!("ATATT3xFfGF0{}", r.text(TOKEN, 180)), true),
    ("New Relic key", |r| format!("NRAK-{}", r.text(UPPER, 27)), true),
    ("Grafana token", |r| format!("glsa_{}_{}", r.token(32), r.hex(8)), true),
    ("Sentry token", |r| format!("sntryu_{}", r.hex(64)), true),
    ("Postman key", |r| format!("PMAK-{}-{}", r.hex(24), r.hex(34)), true),
    ("Airtable token", |r| format!("pat{}.{}", r.token(14), r.hex(64)), true),
    ("Tailscale key", |r| format!("tskey-auth-{}-{}", r.token(12), r.token(32)), true),
    ("age key", |r| format!("AGE-SECRET-KEY-1{}", r.text("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)), true),
    ("1Password token", |r| format!("ops_eyJ{}", r.token(250)), true),
    ("Alibaba key", |r| format!("LTAI{}", r.token(20)), true),
    ("Tencent key", |r| format!("AKID{}", r.token(32)), true),
    ("Heroku key", |r| format!("HRKU-AA{}", r.text(TOKEN, 58)), true),
    ("RubyGems key", |r| format!("rubygems_{}", r.hex(48)), true),
    ("Pulumi token", |r| format!("pul-{}", r.hex(40)), true),
    ("Brevo key", |r| format!("xkeysib-{}-{}", r.hex(64), r.token(16)), true),
    ("Dynatrace token", |r| format!("dt0c01.{}.{}", r.text(UPPER, 24), r.text(UPPER, 64)), true),
    ("unknown provider's key", |r| format!("acme_live_{}", r.token(32)), true),
    ("JSON web token", jwt, true),
    ("private key", pem, true),
    ("card", card, true),
    ("password", password, false),
    ("password with spaces around", |r| r.token(14), false),
    ("AWS secret key", |r| r.text(BASE64, 40), false),
    ("Azure storage key", |r| format!("{}==", r.text(BASE64, 86)), false),
    ("Mistral key", |r| r.token(32), false),
    ("Cohere key", |r| r.token(40), false),
    ("Together key", |r| r.hex(64), false),
    ("DeepSeek key", |r| format!("sk-{}", r.hex(32)), true),
    ("Datadog key", |r| r.hex(32), false),
    ("Cloudflare key", |r| r.hex(37), false),
    ("Cloudflare token", |r| r.text(TOKEN, 40), false),
    ("Heroku UUID", Random::uuid, false),
    ("PayPal secret", |r| format!("E{}", r.text(TOKEN, 79)), false),
    ("Vercel token", |r| r.token(24), false),
    ("Twilio auth token", |r| r.hex(32), false),
    ("signing key", |r| r.text(ALNUM, 48), false),
    ("session token", |r| r.text(TOKEN, 64), false),
    (
        "passphrase",
        |r| format!("{}-{}-{}", r.pick(&["amber", "cobalt"]), r.pick(&["falcon", "otter"]), r.digits(4)),
        false,
    ),
];
