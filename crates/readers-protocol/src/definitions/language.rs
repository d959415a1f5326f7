//! The supported languages.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A language supported by the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they are the languages' own names")]
pub enum Language {
    Bash,
    C,
    Cpp,
    CSharp,
    Go,
    Java,
    JavaScript,
    Kotlin,
    Lua,
    Php,
    Python,
    Ruby,
    Rust,
    Scala,
    /// TypeScript with JSX: `.tsx`.
    Tsx,
    TypeScript,
}

/// The file extensions of each language.
const ENDINGS: &[(Language, &[&str])] = &[
    (Language::Bash, &["sh", "bash"]),
    (Language::C, &["c"]),
    // A header may be C or C++. The C++ grammar parses both.
    (Language::Cpp, &["cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "ipp", "inl"]),
    (Language::CSharp, &["cs"]),
    (Language::Go, &["go"]),
    (Language::Java, &["java"]),
    (Language::JavaScript, &["js", "mjs", "cjs", "jsx"]),
    (Language::Kotlin, &["kt", "kts"]),
    (Language::Lua, &["lua"]),
    (Language::Php, &["php", "phtml"]),
    (Language::Python, &["py", "pyi", "pyw"]),
    (Language::Ruby, &["rb", "rake", "gemspec"]),
    (Language::Rust, &["rs"]),
    (Language::Scala, &["scala", "sc", "sbt"]),
    (Language::Tsx, &["tsx"]),
    (Language::TypeScript, &["ts", "mts", "cts"]),
];

impl Language {
    /// Determines the language of a file by its extension. Returns `None` if the extension is unknown.
    pub fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        ENDINGS.iter().find(|(_, endings)| endings.contains(&ending.as_str())).map(|(language, _)| *language)
    }

    /// Returns all languages.
    pub fn all() -> impl Iterator<Item = Self> {
        ENDINGS.iter().map(|(language, _)| *language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_ending_says_its_language() {
        let of = |name: &str| Language::from_path(Path::new(name));
        assert_eq!(of("src/main.py"), Some(Language::Python));
        assert_eq!(of("a/B.TSX"), Some(Language::Tsx));
        assert_eq!(of("x.h"), Some(Language::Cpp));
        assert_eq!((of("README.md"), of("Makefile"), of(".py")), (None, None, None));
        assert_eq!(serde_json::to_string(&Language::CSharp).unwrap(), "\"csharp\"");
        assert_eq!(Language::all().count(), 16);
    }
}
