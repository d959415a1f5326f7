use serde_json::json;

use super::*;

fn tool<'a>(name: &'a str, schema: &'a Value) -> Tool<'a> {
    Tool {
        name,
        description: "Does it.",
        schema: Some(schema),
        output_schema: None,
        destructive: false,
        idempotent: true,
    }
}
