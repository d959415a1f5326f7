//! Schemas of one type.

use serde_json::{Map, Value, json};

use super::{Lowering, words};
use crate::arguments::fold_key;

/// Lowers a schema without references and choices.
pub(super) fn lower(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    depth: usize,
    nullable: bool,
) -> Value {
    let Some(mut kinds) = kinds(merged) else { return lowering.text(schema, nullable) };
    let values = allowed(merged);
    let null_is_allowed = values.as_ref().is_none_or(|values| values.contains(&Value::Null));
    let nullable = nullable || (null_is_allowed && kinds.iter().any(|kind| kind == "null"));
    // A type of which no value is allowed is none.
    let has_values = |kind: &String| values.as_ref().is_none_or(|values| values.iter().any(|it| is_of(it, kind)));
    kinds.retain(|kind| kind != "null" && has_values(kind));
    match &kinds[..] {
        [kind] => one(lowering, schema, merged, kind, depth, nullable),
        [] => lowering.text(schema, true),
        several if lowering.subset.any_of => {
            let branches: Vec<_> = several.iter().map(|kind| of_kind(merged, kind)).collect();
            let about = super::merge::take_description(&mut merged.clone());
            lowering.choice(&about, branches, depth, nullable)
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

/// The values of `const` or `enum`.
fn allowed(merged: &Map<String, Value>) -> Option<Vec<Value>> {
    merged.get("const").map(|only| vec![only.clone()]).or_else(|| merged.get("enum")?.as_array().cloned())
}

/// The keywords that speak of one type.
fn about(kind: &str) -> &'static [&'static str] {
    match kind {
        "string" => &["minLength", "maxLength", "pattern", "format"],
        "integer" | "number" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
        "array" => &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
        "object" => &["properties", "required", "additionalProperties", "patternProperties"],
        _ => &[],
    }
}

/// The part of a schema of several types that speaks of one of them.
fn of_kind(merged: &Map<String, Value>, kind: &str) -> Value {
    let own = about(kind).iter().filter_map(|keyword| Some(((*keyword).to_owned(), merged.get(*keyword)?.clone())));
    let mut branch: Map<String, Value> = own.collect();
    branch.insert("type".to_owned(), kind.into());
    if let Some(values) = allowed(merged) {
        branch.insert("enum".to_owned(), values.into_iter().filter(|it| is_of(it, kind)).collect());
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
            let declares = merged.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
            let closed = merged.get("additionalProperties") == Some(&Value::Bool(false));
            let says_nothing = closed && lowering.subset.says_closed && !merged.contains_key("patternProperties");
            if !(declares || lowering.subset.maps || says_nothing) {
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

pub(super) fn scalar(lowering: &Lowering<'_>, merged: &Map<String, Value>, kind: &str, nullable: bool) -> Value {
    let subset = lowering.subset;
    let mut object = Map::new();
    object.insert("type".to_owned(), lowering.kind(kind, nullable));
    let mut kept = vec!["const", "enum"];
    let mut said = Vec::new();
    if let Some(values) = allowed(merged) {
        let values: Vec<_> = values.into_iter().filter(|it| is_of(it, kind)).collect();
        fix_values(lowering, &mut object, values, merged.contains_key("const"), nullable, &mut said);
    }
    for keyword in subset.bounds.iter().filter(|keyword| about(kind).contains(keyword)) {
        if let Some(bound) = merged.get(*keyword) {
            object.insert((*keyword).to_owned(), bound.clone());
            kept.push(*keyword);
        }
    }
    let format =
        merged.get("format").and_then(Value::as_str).filter(|it| kind == "string" && subset.formats.contains(it));
    if let Some(format) = format {
        object.insert("format".to_owned(), format.into());
        kept.push("format");
    }
    if let Some(default) = merged.get("default").filter(|_| subset.default) {
        object.insert("default".to_owned(), default.clone());
    }
    if nullable && !subset.null_in_type && merged.get("type").is_some_and(Value::is_array) {
        said.push("May be null, which can't be given here.".to_owned());
    }
    words::say_rest(merged, &kept, subset.default, &mut said);
    if nullable && !subset.null_in_enum && object.contains_key("enum") {
        object.insert("type".to_owned(), kind.into());
        let mut choice = Map::new();
        lowering.describe(&mut choice, merged, &said);
        choice.insert("anyOf".to_owned(), json!([object, { "type": "null" }]));
        return Value::Object(choice);
    }
    lowering.describe(&mut object, merged, &said);
    Value::Object(object)
}

/// Writes the only values there are: as `const`, as `enum`, or in words.
fn fix_values(
    lowering: &Lowering<'_>,
    object: &mut Map<String, Value>,
    mut values: Vec<Value>,
    is_const: bool,
    nullable: bool,
    said: &mut Vec<String>,
) {
    let subset = lowering.subset;
    let is_text = values.iter().all(Value::is_string);
    if !subset.mixed_enum && values.contains(&Value::from("")) {
        // Refused there; what it stands for can still be said.
        said.push("May be empty.".to_owned());
        values.retain(|it| it.as_str() != Some(""));
    }
    match &values[..] {
        [] => {}
        [only] if is_const && subset.constant && !nullable => drop(object.insert("const".to_owned(), only.clone())),
        _ if subset.mixed_enum || is_text => {
            values.extend((nullable && subset.null_in_type && subset.null_in_enum).then_some(Value::Null));
            object.insert("enum".to_owned(), Value::Array(values));
        }
        _ => said.push(words::of_keyword("enum", &Value::Array(values))),
    }
}

fn array(
    lowering: &mut Lowering<'_>,
    schema: &Value,
    merged: &Map<String, Value>,
    depth: usize,
    nullable: bool,
) -> Value {
    // Until 2019, `items` could be the list of places that `prefixItems` is now.
    let places = ["prefixItems", "items"].iter().find_map(|keyword| merged.get(*keyword)?.as_array());
    let items = match (places, merged.get("items")) {
        (None, Some(items @ Value::Object(_))) if !merged.contains_key("const") => items.clone(),
        (Some(places), Some(Value::Bool(false))) if places.windows(2).all(|two| two[0] == two[1]) => {
            places.first().cloned().unwrap_or_default()
        }
        // Of anything, or of several kinds at fixed places: no string is taken there, so text is read back.
        _ => return lowering.text(schema, nullable),
    };
    let mut object = Map::new();
    object.insert("type".to_owned(), lowering.kind("array", nullable));
    object.insert("items".to_owned(), lowering.any(&items, depth + 1, false));
    let mut kept = vec!["items", "prefixItems"];
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
    if let Some(places) = places {
        said.push(format!("At most {} items.", places.len()));
    }
    words::say_rest(merged, &kept, lowering.subset.default, &mut said);
    if let Some(default) = merged.get("default").filter(|_| lowering.subset.default) {
        object.insert("default".to_owned(), default.clone());
    }
    lowering.describe(&mut object, merged, &said);
    Value::Object(object)
}

impl Lowering<'_> {
    /// An object with its properties. Title and description are the caller's.
    pub(super) fn object(&mut self, merged: &Map<String, Value>, depth: usize, said: &mut Vec<String>) -> Value {
        let empty = Map::new();
        let properties = merged.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let named: Vec<&str> =
            merged.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if named.iter().any(|name| !properties.contains_key(*name)) {
            self.lose("it requires a key that it does not declare");
        }
        let (mut lowered, mut required) = (Map::new(), Vec::new());
        for (name, schema) in properties.iter().filter(|(_, schema)| **schema != Value::Bool(false)) {
            let is_required = named.contains(&name.as_str());
            let key = self.key(name, merged, depth);
            let mut property = self.any(schema, depth + 1, self.subset.all_required && !is_required);
            if self.subset.all_required && !is_required {
                self.has_null_for_nothing = true;
                words::say_null(schema, &mut property);
            }
            lowered.insert(key.clone(), property);
            if is_required || self.subset.all_required {
                required.push(Value::from(key));
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
        let kept = ["unevaluatedProperties"];
        words::say_rest(merged, &kept, false, said);
        Value::Object(object)
    }

    /// A key as the provider takes it. One that only has separators it does not take gets others, which a call's
    /// preparation folds back; any other stays, with a note.
    pub(super) fn key(&mut self, name: &str, merged: &Map<String, Value>, depth: usize) -> String {
        let is_plain = |key: &str| {
            let more = self.subset.key_characters;
            key.len() <= 64 && !key.is_empty() && key.chars().all(|it| it.is_ascii_alphanumeric() || more.contains(&it))
        };
        if self.subset.key_characters.is_empty() || (depth > 1 && self.subset.says_closed) || is_plain(name) {
            return name.to_owned();
        }
        let folded = name.replace(['-', ' '], "_");
        let is_free = merged.get("properties").is_some_and(|it| it.get(&folded).is_none());
        // Only in a closed object is a key that is not declared folded back.
        let is_closed = ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|keyword| merged.get(*keyword) == Some(&Value::Bool(false)));
        if is_plain(&folded) && is_free && is_closed && fold_key(&folded) == fold_key(name) {
            // It takes a repair, as text does.
            self.has_text = true;
            return folded;
        }
        let shown: String = name.chars().take(64).collect();
        self.note(&format!("the provider may refuse the name of the parameter '{shown}'"));
        name.to_owned()
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
        let given = merged.get("additionalProperties").or_else(|| merged.get("unevaluatedProperties"));
        // A tool that declares no parameters takes none; an object within that declares no keys takes any.
        let declares = merged.get("properties").is_some_and(|it| depth == 1 || *it != json!({}));
        let is_open = given.is_none() && !declares;
        let more = !matches!(given, None | Some(Value::Bool(false))) || merged.contains_key("patternProperties");
        let further = match given {
            Some(Value::Bool(true)) if self.subset.maps => Some(Value::Bool(true)),
            Some(schema @ Value::Object(_)) if self.subset.maps => Some(self.any(schema, depth + 1, false)),
            None if self.subset.maps && (is_open || more) => Some(Value::Bool(true)),
            Some(Value::Bool(false)) if self.subset.maps && more => Some(Value::Bool(true)),
            _ if more && depth > 1 => {
                said.push("It may have further keys, which can't be given here.".to_owned());
                self.lose("an object in it takes keys that it does not declare");
                closed
            }
            _ => closed,
        };
        if more {
            self.lose("it takes keys that it does not declare");
        }
        if let Some(further) = further {
            object.insert("additionalProperties".to_owned(), further);
        }
    }
}
