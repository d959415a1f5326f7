//! The tool and the call that benchmarks prepare arguments for.

use serde_json::{Value, json};

/// Five fields, as tools have them.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "minLength": 1},
            "max_steps": {"type": "integer", "minimum": 1, "maximum": 1000},
            "use_vision": {"type": "boolean"},
            "mode": {"enum": ["fast", "careful", "thorough"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        },
        "required": ["task"],
        "additionalProperties": false,
    })
}

/// A call of 200 bytes that fits it.
pub(crate) const VALID: &str = r#"{"task": "Find the opening hours of the public library in Ghent and write them into a sheet now", "max_steps": 25, "use_vision": true, "mode": "careful", "tags": ["library", "opening hours", "ghent"]}"#;
