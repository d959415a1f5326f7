//! The static parts of the document.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// The document without what depends on the gateway.
pub(super) static FRAME: LazyLock<Value> = LazyLock::new(|| parse(include_str!("document.json")));

/// The operations by path and method, without the refusals that follow from their rows in the table of operations.
pub(super) static PATHS: LazyLock<Value> = LazyLock::new(|| parse(include_str!("paths.json")));

pub(super) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Describes the operation at `path`, a template. None if it is not listed. `is_limited`: its requests count towards a
/// pool, which may be full.
pub(crate) fn describe(path: &str, method: &str, is_limited: bool) -> Option<Value> {
    let mut operation = PATHS.get(path)?.get(method)?.clone();
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    let (has_query, has_body) = (parameters.any(|it| it["in"] == "query"), operation["requestBody"].is_object());
    let refusals = [
        ("400", "BadRequest", has_query),
        // Every operation may require a key, or be forbidden.
        ("401", "Unauthorized", true),
        ("403", "Forbidden", true),
        ("404", "NotFound", path.contains('{')),
        ("413", "TooLarge", has_body),
        ("415", "UnsupportedMediaType", has_body),
        ("503", "Unavailable", is_limited),
        ("default", "Failure", true),
    ];
    for (status, name, _) in refusals.into_iter().filter(|(.., is_implied)| *is_implied) {
        let stated = &mut operation["responses"][status];
        if stated.is_null() {
            *stated = json!({ "$ref": format!("#/components/responses/{name}") });
        }
    }
    Some(operation)
}
