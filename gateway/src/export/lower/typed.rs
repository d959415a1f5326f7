//! Schemas of one type.

use serde_json::{Map, Value, json};

use super::{Lowering, words};

/// Lowers a schema without references and choices.
pub(super) fn lower(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    depth: usize,
    nullable: bool,
) -> Value {
    let Some(mut kinds) = kinds(merged) else { return lowering.text(schema, nullable) };
    let nullable = nullable || kinds.iter().any(|kind| kind == "null");
    kinds.retain(|kind| kind != "null");
    match &kinds[..] {
        [kind] => one(lowering, schema, merged, kind, depth, nullable),
        [] => lowering.text(schema, true),
        several if lowering.subset.any_of => {
            let branches: Vec<_> = several.iter().map(|kind| of_kind(merged, kind)).collect();
            let outer =
                merged.iter().filter(|(keyword, _)| matches!(keyword.as_str(), "description" | "title" | "default"));
            let outer = outer.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
            lowering.choice(&outer, &branches, depth, nullable)
        }
        _ => lowering.text(schema, nullable),
    }
}

/// The types a schema names, or that its other keywords imply.
fn kinds(merged: &Map<String, Value>) -> Option<Vec<String>> {
    match merged.get("type") {
        Some(Value::String(one)) => return Some(vec![one.clone()]),
        Some(Value::Array(several)) => return several.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => {}
    }
    if let Some(values) = allowed(merged) {
        let mut kinds: Vec<_> = values.iter().map(|it| kind_of(it).to_owned()).collect();
        kinds.sort();
        kinds.dedup();
        return Some(kinds);
    }
    let implied = [("properties", "object"), ("items", "array"), ("prefixItems", "array"), ("pattern", "string")];
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

/// The values of `const` or `enum`.
fn allowed(merged: &Map<String, Value>) -> Option<Vec<Value>> {
    merged.get("const").map(|only| vec![only.clone()]).or_else(|| merged.get("enum")?.as_array().cloned())
}

/// The part of a schema of several types that speaks of one of them.
fn of_kind(merged: &Map<String, Value>, kind: &str) -> Value {
    let about: &[&str] = match kind {
        "string" => &["minLength", "maxLength", "pattern", "format"],
        "integer" | "number" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
        "array" => &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
        "object" => &["properties", "required", "additionalProperties", "patternProperties"],
        _ => &[],
    };
    let mut branch: Map<String, Value> =
        about.iter().filter_map(|keyword| Some(((*keyword).to_owned(), merged.get(*keyword)?.clone()))).collect();
    branch.insert("type".to_owned(), kind.into());
    if let Some(values) = allowed(merged) {
        let of_it = values.into_iter().filter(|it| kind_of(it) == kind || (kind == "number" && it.is_number()));
        branch.insert("enum".to_owned(), of_it.collect());
    }
    Value::Object(branch)
}

fn one(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    kind: &str,
    depth: usize,
    nullable: bool,
) -> Value {
    match kind {
        "object" => {
            let properties = merged.get("properties").and_then(Value::as_object);
            let is_free = properties.is_none_or(|it| it.is_empty() && lowering.subset.ordering);
            if is_free && !lowering.subset.maps {
                return lowering.text(schema, nullable);
            }
            let mut said = Vec::new();
            let Value::Object(mut object) = lowering.object(merged, depth, &mut said) else { return json!({}) };
            object.insert("type".to_owned(), lowering.kind("object", nullable));
            lowering.describe(&mut object, merged, &said);
            Value::Object(object)
        }
        "array" => array(lowering, schema, merged, depth, nullable),
        "string" | "integer" | "number" | "boolean" => scalar(lowering, merged, kind, nullable),
        _ => lowering.text(schema, nullable),
    }
}

fn scalar(lowering: &Lowering<'_>, merged: &Map<String, Value>, kind: &str, nullable: bool) -> Value {
    let subset = lowering.subset;
    let mut object = Map::new();
    object.insert("type".to_owned(), lowering.kind(kind, nullable));
    let mut kept = vec!["type", "description", "title", "const", "enum"];
    let mut said = Vec::new();
    if let Some(mut values) = allowed(merged) {
        let fits = |it: &Value| kind_of(it) == kind || (kind == "number" && it.is_number()) || it.is_null();
        values.retain(fits);
        values.retain(|it| !it.is_null());
        let plain = subset.mixed_enum || kind == "string";
        let null_too = nullable && subset.null_in_type;
        match (&values[..], merged.contains_key("const")) {
            ([], _) => {}
            ([only], true) if subset.constant && !null_too => drop(object.insert("const".to_owned(), only.clone())),
            _ if plain => {
                values.extend(null_too.then_some(Value::Null));
                object.insert("enum".to_owned(), Value::Array(values));
            }
            _ => said.push(words::of_keyword("enum", &Value::Array(values))),
        }
    }
    for keyword in subset.bounds {
        if let Some(bound) = merged.get(*keyword) {
            object.insert((*keyword).to_owned(), bound.clone());
            kept.push(*keyword);
        }
    }
    if let Some(format) = merged.get("format").filter(|it| it.as_str().is_some_and(|it| subset.formats.contains(&it))) {
        object.insert("format".to_owned(), format.clone());
        kept.push("format");
    }
    if let Some(default) = merged.get("default").filter(|_| subset.default) {
        object.insert("default".to_owned(), default.clone());
    }
    words::say_rest(merged, &kept, subset.default, &mut said);
    lowering.describe(&mut object, merged, &said);
    Value::Object(object)
}

fn array(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    depth: usize,
    nullable: bool,
) -> Value {
    let tuple = merged.get("prefixItems").and_then(Value::as_array);
    let items = match (tuple, merged.get("items")) {
        (Some(places), _) if places.windows(2).any(|two| two[0] != two[1]) => return lowering.text(schema, nullable),
        (Some(places), _) if !places.is_empty() => places[0].clone(),
        (_, Some(items @ Value::Object(_))) => items.clone(),
        // Of anything: what can be said of each is that it may be a string.
        _ => json!({ "type": "string" }),
    };
    let mut object = Map::new();
    object.insert("type".to_owned(), lowering.kind("array", nullable));
    object.insert("items".to_owned(), lowering.any(&items, depth + 1, false));
    let mut kept = vec!["type", "description", "title", "items", "prefixItems"];
    for keyword in ["minItems", "maxItems"] {
        let most = lowering.subset.most_min_items;
        let fits =
            |it: &&Value| most.is_none_or(|most| keyword == "minItems" && it.as_u64().is_some_and(|it| it <= most));
        if let Some(bound) = merged.get(keyword).filter(|_| lowering.subset.bounds.contains(&keyword)).filter(fits) {
            object.insert(keyword.to_owned(), bound.clone());
            kept.push(keyword);
        }
    }
    let mut said = Vec::new();
    if let Some(places) = tuple.filter(|it| !it.is_empty()) {
        said.push(format!("Exactly {} items.", places.len()));
    }
    words::say_rest(merged, &kept, lowering.subset.default, &mut said);
    if let Some(default) = merged.get("default").filter(|_| lowering.subset.default) {
        object.insert("default".to_owned(), default.clone());
    }
    lowering.describe(&mut object, merged, &said);
    Value::Object(object)
}

impl Lowering<'_> {
    /// An object with its properties. The type is `object`; description and title are the caller's.
    pub(super) fn object(&mut self, merged: &Map<String, Value>, depth: usize, said: &mut Vec<String>) -> Value {
        let empty = Map::new();
        let properties = merged.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let named: Vec<&str> =
            merged.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let (mut lowered, mut required) = (Map::new(), Vec::new());
        for (name, schema) in properties.iter().filter(|(_, schema)| **schema != Value::Bool(false)) {
            let is_required = named.contains(&name.as_str());
            let nullable = self.subset.all_required && !is_required;
            lowered.insert(name.clone(), self.any(schema, depth + 1, nullable));
            if is_required || self.subset.all_required {
                required.push(Value::from(name.as_str()));
            }
        }
        let order: Vec<Value> = lowered.keys().map(|name| name.as_str().into()).collect();
        let mut object = Map::new();
        object.insert("type".to_owned(), "object".into());
        object.insert("properties".to_owned(), Value::Object(lowered));
        object.insert("required".to_owned(), Value::Array(required));
        if self.subset.ordering {
            object.insert("propertyOrdering".to_owned(), Value::Array(order));
        }
        self.further(merged, depth, &mut object, said);
        let kept =
            ["type", "description", "title", "properties", "required", "additionalProperties", "unevaluatedProperties"];
        words::say_rest(merged, &kept, false, said);
        Value::Object(object)
    }

    /// What may be said of keys that are not declared.
    fn further(
        &mut self,
        merged: &Map<String, Value>,
        depth: usize,
        object: &mut Map<String, Value>,
        said: &mut Vec<String>,
    ) {
        let closed = self.subset.says_closed.then_some(Value::Bool(false));
        let further = match merged.get("additionalProperties") {
            Some(Value::Bool(true)) if self.subset.maps => Some(Value::Bool(true)),
            Some(schema @ Value::Object(_)) if self.subset.maps => Some(self.any(schema, depth + 1, false)),
            None if self.subset.maps && !merged.contains_key("properties") => Some(Value::Bool(true)),
            Some(Value::Object(_) | Value::Bool(true)) if merged.contains_key("properties") => {
                said.push("It may have further keys, which can't be given here.".to_owned());
                self.lost.get_or_insert_with(|| "an object in it takes keys that it does not declare".to_owned());
                closed
            }
            _ => closed,
        };
        if let Some(further) = further {
            object.insert("additionalProperties".to_owned(), further);
        }
    }
}
