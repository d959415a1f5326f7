//! Lowers schemas by their type.

use serde_json::{Map, Value, json};

use super::lowering::{Lowering, SchemaBuilder};
use super::{merge, words};

impl Lowering<'_> {
    /// Lowers a schema without references, `anyOf` and `oneOf`.
    pub(super) fn lower_by_type(
        &mut self,
        schema: &Value,
        merged: &Map<String, Value>,
        depth: usize,
        nullable: bool,
    ) -> Value {
        let Some(mut kinds) = kinds(merged) else { return self.text(schema, nullable) };
        let values = allowed_values(merged);
        let null_is_allowed = values.as_ref().is_none_or(|values| values.contains(&Value::Null));
        let nullable = nullable || (null_is_allowed && kinds.iter().any(|kind| kind == "null"));
        // Drop a type that has no allowed value.
        let has_values = |kind: &String| values.as_ref().is_none_or(|values| values.iter().any(|it| is_of(it, kind)));
        kinds.retain(|kind| kind != "null" && has_values(kind));
        match &kinds[..] {
            [kind] => self.one(schema, merged, kind, depth, nullable),
            [] => self.text(schema, true),
            several if self.subset.any_of => {
                let branches: Vec<_> = several.iter().map(|kind| branch_for_kind(merged, kind)).collect();
                let about = merge::take_description(&mut merged.clone());
                self.choice(&about, branches, depth, nullable)
            }
            _ => self.text(schema, nullable),
        }
    }

    fn one(&mut self, schema: &Value, merged: &Map<String, Value>, kind: &str, depth: usize, nullable: bool) -> Value {
        match kind {
            "object" => {
                let declares = merged.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
                let closed = merged.get("additionalProperties") == Some(&Value::Bool(false));
                let is_empty_object = closed && self.subset.writes_closed && !merged.contains_key("patternProperties");
                if !(declares || self.subset.maps || is_empty_object) {
                    return self.text(schema, nullable);
                }
                let builder = self.object(merged, depth, nullable);
                self.build(builder, merged)
            }
            "array" => self.array(schema, merged, depth, nullable),
            "string" | "integer" | "number" | "boolean" => self.scalar(merged, kind, nullable),
            _ => self.text(schema, nullable),
        }
    }

    pub(super) fn scalar(&self, merged: &Map<String, Value>, kind: &str, nullable: bool) -> Value {
        let subset = self.subset;
        let mut builder = self.builder(kind, nullable);
        let mut kept = vec!["const", "enum"];
        if let Some(values) = allowed_values(merged) {
            let values = values.into_iter().filter(|it| is_of(it, kind)).collect();
            self.write_values(values, merged.contains_key("const"), nullable, &mut builder);
        }
        for keyword in subset.bounds.iter().map(String::as_str).filter(|it| keywords_for(kind).contains(it)) {
            if let Some(bound) = merged.get(keyword) {
                builder.insert(keyword, bound.clone());
                kept.push(keyword);
            }
        }
        let format = merged.get("format").and_then(Value::as_str);
        if let Some(format) = format.filter(|it| kind == "string" && subset.formats.iter().any(|known| known == it)) {
            builder.insert("format", format);
            kept.push("format");
        }
        if let Some(default) = merged.get("default").filter(|_| subset.default) {
            builder.insert("default", default.clone());
        }
        if nullable && !subset.null_in_type && merged.get("type").is_some_and(Value::is_array) {
            builder.sentences.push("Null is allowed but cannot be given here.".to_owned());
        }
        words::add_rest(merged, &kept, subset.default, &mut builder.sentences);
        if nullable && !subset.null_in_enum && subset.any_of && builder.object.contains_key("enum") {
            builder.insert("type", kind);
            let values = std::mem::take(&mut builder.object);
            let mut choice = self.build(builder, merged);
            choice["anyOf"] = json!([values, { "type": "null" }]);
            return choice;
        }
        self.build(builder, merged)
    }

    /// Writes the fixed values: as `const`, as `enum`, or as a sentence.
    fn write_values(&self, mut values: Vec<Value>, is_const: bool, nullable: bool, builder: &mut SchemaBuilder) {
        let subset = self.subset;
        let is_text = values.iter().all(Value::is_string);
        if !subset.mixed_enum && values.contains(&Value::from("")) {
            // The provider rejects an empty string in an enum, but a sentence can allow it.
            builder.sentences.push("May be an empty string.".to_owned());
            values.retain(|it| it.as_str() != Some(""));
        }
        match &values[..] {
            [] => {}
            [only] if is_const && subset.constant && !nullable => builder.insert("const", only.clone()),
            _ if subset.mixed_enum || is_text => {
                values.extend((nullable && subset.null_in_type && subset.null_in_enum).then_some(Value::Null));
                builder.insert("enum", values);
            }
            _ => builder.sentences.push(words::sentence("enum", &Value::Array(values))),
        }
    }

    fn array(&mut self, schema: &Value, merged: &Map<String, Value>, depth: usize, nullable: bool) -> Value {
        let subset = self.subset;
        let positions = merged.get("prefixItems").and_then(Value::as_array);
        let items = match (positions, merged.get("items")) {
            (None, Some(items @ Value::Object(_))) if !merged.contains_key("const") => items.clone(),
            (Some(positions), Some(Value::Bool(false))) if positions.windows(2).all(|two| two[0] == two[1]) => {
                positions.first().cloned().unwrap_or_default()
            }
            // Items of any type, or of different types by position. An array is not a string, so its JSON text can
            // be decoded.
            _ => return self.text(schema, nullable),
        };
        let mut builder = self.builder("array", nullable);
        builder.insert("items", self.any(&items, depth + 1, false));
        let mut kept = vec!["items", "prefixItems"];
        for keyword in ["minItems", "maxItems"] {
            let max = subset.max_min_items;
            let fits =
                |it: &&Value| max.is_none_or(|max| keyword == "minItems" && it.as_u64().is_some_and(|it| it <= max));
            let is_bound = subset.bounds.iter().any(|it| it == keyword);
            if let Some(bound) = merged.get(keyword).filter(|_| is_bound).filter(fits) {
                builder.insert(keyword, bound.clone());
                kept.push(keyword);
            }
        }
        builder.sentences.extend(positions.map(|it| words::sentence("maxItems", &it.len().into())));
        words::add_rest(merged, &kept, subset.default, &mut builder.sentences);
        if let Some(default) = merged.get("default").filter(|_| subset.default) {
            builder.insert("default", default.clone());
        }
        self.build(builder, merged)
    }
}

/// Returns the types that a schema names, or that its other keywords imply.
fn kinds(merged: &Map<String, Value>) -> Option<Vec<String>> {
    match merged.get("type") {
        Some(Value::String(one)) => return Some(vec![one.clone()]),
        Some(Value::Array(several)) => return several.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => {}
    }
    if let Some(values) = allowed_values(merged) {
        let mut kinds: Vec<_> = values.iter().map(|it| kind_of(it).to_owned()).collect();
        kinds.sort();
        kinds.dedup();
        return Some(kinds);
    }
    let implied = [("properties", "object"), ("items", "array"), ("prefixItems", "array")];
    implied.iter().find(|(keyword, _)| merged.contains_key(*keyword)).map(|(_, kind)| vec![(*kind).to_owned()])
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    let is_whole = value.as_f64().is_some_and(|it| it.fract() == 0.0);
    kind_of(value) == kind || (kind == "number" && value.is_number()) || (kind == "integer" && is_whole)
}

/// Returns the values of `const` or `enum`.
fn allowed_values(merged: &Map<String, Value>) -> Option<Vec<Value>> {
    merged.get("const").map(|only| vec![only.clone()]).or_else(|| merged.get("enum")?.as_array().cloned())
}

/// Returns the keywords that apply to one type.
fn keywords_for(kind: &str) -> &'static [&'static str] {
    match kind {
        "string" => &["minLength", "maxLength", "pattern", "format"],
        "integer" | "number" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
        "array" => &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
        "object" => &["properties", "required", "additionalProperties", "patternProperties"],
        _ => &[],
    }
}

/// Returns the part of a multi-type schema that applies to one of its types.
fn branch_for_kind(merged: &Map<String, Value>, kind: &str) -> Value {
    let own =
        keywords_for(kind).iter().filter_map(|keyword| Some(((*keyword).to_owned(), merged.get(*keyword)?.clone())));
    let mut branch: Map<String, Value> = own.collect();
    branch.insert("type".to_owned(), kind.into());
    if let Some(values) = allowed_values(merged) {
        branch.insert("enum".to_owned(), values.into_iter().filter(|it| is_of(it, kind)).collect());
    }
    Value::Object(branch)
}
