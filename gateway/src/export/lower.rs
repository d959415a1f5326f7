//! Lowers any JSON Schema to a provider's subset.
//!
//! Nothing is lost silently: what keywords cannot express becomes part of a description, and a tool that would lose valid
//! calls is not exported as strict.

use serde_json::{Map, Value, json};

use super::subset::Subset;

mod lowering;
mod merge;
mod object;
mod targets;
mod typed;
mod words;

pub(super) use lowering::Lowered;
use lowering::Lowering;

/// Lowers a tool's schema to an object without choices at its top level.
pub(super) fn root(schema: &Value, subset: &Subset) -> Lowered {
    let mut lowering = Lowering::new(schema, subset);
    let (mut object, mut remarks) = lowering.flattened_top(schema);
    object.insert("type".to_owned(), "object".into());
    if subset.passes_through {
        object.shift_remove("$schema");
        let names: Vec<String> =
            object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
        // The schema passes through, so names stay; only the note about them is used.
        let unclosed = Map::new();
        names.iter().for_each(|name| drop(lowering.key(name, &unclosed, 1)));
        let mut passed = Value::Object(object);
        targets::keep(schema, &mut passed);
        return lowering.finish(passed, remarks);
    }
    let is_open = match object.get("additionalProperties") {
        Some(additional) => *additional != Value::Bool(false),
        None => !object.contains_key("properties"),
    };
    if is_open && !subset.maps {
        lowering.lose_and_note("it accepts undeclared keys, which this provider's schemas cannot express");
    }
    let description = object.shift_remove("description").and_then(|it| it.as_str().map(str::to_owned));
    let mut sentences = Vec::new();
    let lowered = lowering.object(&object, 1, &mut sentences);
    remarks.splice(0..0, description);
    remarks.extend(sentences);
    lowering.finish(lowered, remarks)
}

impl Lowering<'_> {
    /// The top level as one object: parts of `allOf` merged, choices turned into sentences.
    fn flattened_top(&mut self, schema: &Value) -> (Map<String, Value>, Vec<String>) {
        let mut object = self.merged(schema, &mut Vec::new());
        let mut remarks = Vec::new();
        for keyword in
            ["anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"]
        {
            let Some(choice) = object.shift_remove(keyword) else { continue };
            self.lose("its schema has a choice at the top level, which only the description can express");
            // Properties that only branches declare must be declared at the top level as well.
            let branches = match (&choice, keyword) {
                (Value::Array(branches), _) => branches.clone(),
                (Value::Object(by_key), "dependentSchemas" | "dependencies") => by_key.values().cloned().collect(),
                (branch, "then" | "else") => vec![branch.clone()],
                _ => Vec::new(),
            };
            let mut joined = Map::new();
            for branch in branches {
                let branch = self.merged(&branch, &mut Vec::new());
                merge::join_properties(&mut joined, branch.get("properties"));
            }
            merge::adopt_properties(&mut object, joined);
            remarks.push(words::sentence(keyword, &self.inlined(&choice)));
        }
        (object, remarks)
    }

    /// Lowers any schema below the top level. `nullable`: null must be allowed as well.
    fn any(&mut self, schema: &Value, depth: usize, nullable: bool) -> Value {
        if self.subschemas_left == 0 || depth > self.subset.depth {
            return self.beyond_depth(schema, nullable);
        }
        self.subschemas_left -= 1;
        let mut followed = Vec::new();
        let merged = self.merged(schema, &mut followed);
        if followed.iter().any(|reference| self.stack.contains(reference)) {
            return self.text(schema, nullable);
        }
        let level = self.stack.len();
        self.stack.append(&mut followed);
        let lowered = self.merged_any(schema, merged, depth, nullable);
        self.stack.truncate(level);
        lowered
    }

    /// Lowers a schema where no deeper nesting is allowed: scalars as they are, everything else to JSON text.
    fn beyond_depth(&mut self, schema: &Value, nullable: bool) -> Value {
        match schema.get("type").and_then(Value::as_str) {
            Some(kind @ ("string" | "integer" | "number" | "boolean")) => {
                let merged = schema.as_object().cloned().unwrap_or_default();
                typed::scalar(self, &merged, kind, nullable)
            }
            _ => self.text(schema, nullable),
        }
    }

    fn merged_any(&mut self, schema: &Value, mut merged: Map<String, Value>, depth: usize, nullable: bool) -> Value {
        let Some(keyword) = ["anyOf", "oneOf"].into_iter().find(|keyword| merged.contains_key(*keyword)) else {
            return typed::lower(self, schema, &merged, depth, nullable);
        };
        let Some(Value::Array(branches)) = merged.shift_remove(keyword) else { return self.text(schema, nullable) };
        let is_null = |it: &Value| it.get("type").and_then(Value::as_str) == Some("null");
        let nullable = nullable || branches.iter().any(is_null);
        let others: Vec<_> = branches.into_iter().filter(|it| !is_null(it)).collect();
        if let Some(one_enum) = merge::as_one_enum(&others) {
            merged.extend(one_enum);
            return self.merged_any(schema, merged, depth, nullable);
        }
        // Keywords next to the choice apply to each branch; descriptions apply to the choice.
        let about = merge::take_description(&mut merged);
        let with_outer = |branch: &Value| match merged.is_empty() {
            true => branch.clone(),
            false => json!({ "allOf": [branch, Value::Object(merged.clone())] }),
        };
        match &others[..] {
            [] => self.text(schema, nullable),
            [only] => {
                let mut one = about;
                one.insert("allOf".to_owned(), json!([with_outer(only)]));
                self.any(&Value::Object(one), depth, nullable)
            }
            _ if !self.subset.any_of => self.text(schema, nullable),
            several => self.choice(&about, several.iter().map(with_outer).collect(), depth, nullable),
        }
    }

    /// Writes `anyOf`. If null must be allowed, the first branch allows it.
    fn choice(&mut self, about: &Map<String, Value>, branches: Vec<Value>, depth: usize, nullable: bool) -> Value {
        let lowered: Vec<_> = branches
            .iter()
            .enumerate()
            .map(|(index, branch)| self.any(branch, depth, nullable && index == 0))
            .collect();
        let mut sentences = Vec::new();
        words::add_rest(about, &[], self.subset.default, &mut sentences);
        let mut object = Map::new();
        self.describe(&mut object, about, &sentences);
        object.insert("anyOf".to_owned(), Value::Array(lowered));
        Value::Object(object)
    }

    /// Writes a schema that the subset cannot represent: a string of JSON text, which argument preparation decodes. It does
    /// so only where the schema accepts no string; where it does, only strings can be given.
    fn text(&mut self, schema: &Value, nullable: bool) -> Value {
        let quoted = words::short(&self.inlined(schema));
        let sentence = if merge::accepts_string(self.root, schema, 0) {
            self.lose("a parameter accepts text and other types, which this provider's schemas cannot express");
            format!("Text only; the other types in this JSON Schema cannot be given here: {quoted}")
        } else {
            self.needs_decoding = true;
            format!("Write the value as JSON text that matches this JSON Schema: {quoted}")
        };
        let mut object = Map::new();
        object.insert("type".to_owned(), self.type_value("string", nullable));
        self.describe(&mut object, schema.as_object().unwrap_or(&Map::new()), &[sentence]);
        Value::Object(object)
    }
}
