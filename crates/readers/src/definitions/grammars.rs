//! The tree-sitter grammar of each language.

use openskill_readers_protocol::definitions::language::Language;

/// Returns the grammar of a language.
pub(super) fn grammar(language: Language) -> tree_sitter::Language {
    let grammar = match language {
        Language::Bash => tree_sitter_bash::LANGUAGE,
        Language::C => tree_sitter_c::LANGUAGE,
        Language::Cpp => tree_sitter_cpp::LANGUAGE,
        Language::CSharp => tree_sitter_c_sharp::LANGUAGE,
        Language::Go => tree_sitter_go::LANGUAGE,
        Language::Java => tree_sitter_java::LANGUAGE,
        Language::JavaScript => tree_sitter_javascript::LANGUAGE,
        Language::Kotlin => tree_sitter_kotlin_ng::LANGUAGE,
        Language::Lua => tree_sitter_lua::LANGUAGE,
        Language::Php => tree_sitter_php::LANGUAGE_PHP,
        Language::Python => tree_sitter_python::LANGUAGE,
        Language::Ruby => tree_sitter_ruby::LANGUAGE,
        Language::Rust => tree_sitter_rust::LANGUAGE,
        Language::Scala => tree_sitter_scala::LANGUAGE,
        Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
    };
    grammar.into()
}
