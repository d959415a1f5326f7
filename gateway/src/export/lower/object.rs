//! Lowers objects: properties, property names, and additional keys.

use serde_json::{Map, Value, json};

use super::lowering::{Lowering, SchemaBuilder};
use super::words;
use crate::arguments::fold_key;

impl Lowering<'_> {
    /// Lowers an object and its properties. The caller adds the title and the description.
    pub(super) fn object(&mut self, merged: &Map<String, Value>, depth: usize, nullable: bool) -> SchemaBuilder {
        let empty = Map::new();
        let properties = merged.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required_names: Vec<&str> =
            merged.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if required_names.iter().any(|name| !properties.contains_key(*name)) {
            self.lose("it requires an undeclared key");
        }
        let (mut lowered, mut required) = (Map::new(), Vec::new());
        for (name, schema) in properties.iter().filter(|(_, schema)| **schema != Value::Bool(false)) {
            let is_required = required_names.contains(&name.as_str());
            let key = self.key(name, merged, depth);
            let mut property = self.any(schema, depth + 1, self.subset.all_required && !is_required);
            if self.subset.all_required && !is_required {
                self.lowered.nulls_omit = true;
                words::add_null(schema, &mut property);
            }
            lowered.insert(key.clone(), property);
            if is_required || self.subset.all_required {
                required.push(key);
            }
        }
        let order: Vec<String> = lowered.keys().cloned().collect();
        let mut builder = self.builder("object", nullable);
        builder.insert("properties", lowered);
        builder.insert("required", required);
        if self.subset.ordering {
            builder.insert("propertyOrdering", order);
        }
        self.additional(merged, depth, &mut builder);
        words::add_rest(merged, &["unevaluatedProperties"], false, &mut builder.sentences);
        builder
    }

    /// Returns a property name that the provider accepts. Replaces refused separators with underscores, which
    /// argument preparation folds back. Keeps any other name, with a note.
    pub(super) fn key(&mut self, name: &str, merged: &Map<String, Value>, depth: usize) -> String {
        let is_accepted = |key: &str| {
            let extra = &self.subset.key_characters;
            key.len() <= 64 && !key.is_empty() && key.chars().all(|it| it.is_ascii_alphanumeric() || extra.contains(it))
        };
        if self.subset.key_characters.is_empty() || (depth > 1 && self.subset.writes_closed) || is_accepted(name) {
            return name.to_owned();
        }
        let folded = name.replace(['-', ' '], "_");
        let is_free = merged.get("properties").is_some_and(|it| it.get(&folded).is_none());
        // Undeclared keys are folded back only in closed objects.
        let is_closed = ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|keyword| merged.get(*keyword) == Some(&Value::Bool(false)));
        if is_accepted(&folded) && is_free && is_closed && fold_key(&folded) == fold_key(name) {
            self.lowered.needs_decoding = true;
            return folded;
        }
        let shown: String = name.chars().take(64).collect();
        self.lose_and_note(&format!("the provider may refuse the parameter name '{shown}'"));
        name.to_owned()
    }

    /// Writes the rule for undeclared keys.
    fn additional(&mut self, merged: &Map<String, Value>, depth: usize, builder: &mut SchemaBuilder) {
        let closed = self.subset.writes_closed.then_some(Value::Bool(false));
        let given = merged.get("additionalProperties").or_else(|| merged.get("unevaluatedProperties"));
        // A tool without declared parameters accepts none. A nested object without declared keys accepts any.
        let declares = merged.get("properties").is_some_and(|it| depth == 1 || *it != json!({}));
        let is_free = given.is_none() && !declares;
        let is_open = !matches!(given, None | Some(Value::Bool(false))) || merged.contains_key("patternProperties");
        let additional = match given {
            Some(Value::Bool(true)) if self.subset.maps => Some(Value::Bool(true)),
            Some(schema @ Value::Object(_)) if self.subset.maps => Some(self.any(schema, depth + 1, false)),
            None if self.subset.maps && (is_free || is_open) => Some(Value::Bool(true)),
            Some(Value::Bool(false)) if self.subset.maps && is_open => Some(Value::Bool(true)),
            _ if is_open && depth > 1 => {
                builder.sentences.push("Other keys are allowed but cannot be given here.".to_owned());
                self.lose("a nested object accepts undeclared keys");
                closed
            }
            _ => closed,
        };
        if is_open {
            self.lose("it accepts undeclared keys");
        }
        if let Some(additional) = additional {
            builder.insert("additionalProperties", additional);
        }
    }
}
