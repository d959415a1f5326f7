//! Lowers any JSON Schema to a provider's subset.
//!
//! Reports every loss: what the subset's keywords can't express moves into a description, and a tool that would
//! lose valid calls is not exported as strict.

use serde_json::{Map, Value, json};

use super::subset::Subset;

mod lowering;
mod merge;
mod object;
mod targets;
mod typed;
mod words;

pub(super) use lowering::Lowered;
use lowering::{Lowering, SchemaBuilder};

/// Lowers a tool's schema to an object without `anyOf` and `oneOf` at its top level.
pub(super) fn root(schema: &Value, subset: &Subset) -> Lowered {
    let mut lowering = Lowering::new(schema, subset);
    let (mut object, mut remarks) = lowering.flatten_top(schema);
    object.insert("type".to_owned(), "object".into());
    if subset.passes_through {
        object.shift_remove("$schema");
        // The schema passes through, so names stay. Use only the note about them.
        let names = object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        names.for_each(|name| drop(lowering.key(name, &Map::new(), 1)));
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
    let builder = lowering.object(&object, 1, false);
    remarks.splice(0..0, description);
    remarks.extend(builder.sentences);
    lowering.finish(Value::Object(builder.object), remarks)
}

impl Lowering<'_> {
    /// Flattens the top level to one object: merges the parts of `allOf`, and turns `anyOf` and `oneOf` into sentences.
    fn flatten_top(&mut self, schema: &Value) -> (Map<String, Value>, Vec<String>) {
        let mut object = self.merge(schema, &mut Vec::new(), 0);
        let mut remarks = Vec::new();
        for keyword in
            ["anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"]
        {
            let Some(choice) = object.shift_remove(keyword) else { continue };
            self.lose("its schema has a choice at the top level, which only the description can express");
            // Properties that only branches declare must also be declared at the top level.
            let branches = match (&choice, keyword) {
                (Value::Array(branches), _) => branches.clone(),
                (Value::Object(by_key), "dependentSchemas" | "dependencies") => by_key.values().cloned().collect(),
                (branch, "then" | "else") => vec![branch.clone()],
                _ => Vec::new(),
            };
            let mut joined = Map::new();
            for branch in branches {
                let branch = self.merge(&branch, &mut Vec::new(), 0);
                merge::join_properties(&mut joined, branch.get("properties"));
            }
            merge::adopt_properties(&mut object, joined);
            remarks.push(words::sentence(keyword, &self.inline_references(&choice)));
        }
        (object, remarks)
    }

    /// Lowers any schema below the top level. `nullable`: null must also be allowed.
    fn any(&mut self, schema: &Value, depth: usize, nullable: bool) -> Value {
        if self.subschemas_left == 0 || depth > self.subset.depth {
            return self.beyond_depth(schema, nullable);
        }
        self.subschemas_left -= 1;
        let mut followed = Vec::new();
        let merged = self.merge(schema, &mut followed, 0);
        if followed.iter().any(|reference| self.stack.contains(reference)) {
            return self.text(schema, nullable);
        }
        let level = self.stack.len();
        self.stack.append(&mut followed);
        let lowered = self.lower_merged(schema, merged, depth, nullable);
        self.stack.truncate(level);
        lowered
    }

    /// Lowers a schema at the maximum depth: keeps scalars, and turns everything else into JSON text.
    fn beyond_depth(&mut self, schema: &Value, nullable: bool) -> Value {
        match schema.get("type").and_then(Value::as_str) {
            Some(kind @ ("string" | "integer" | "number" | "boolean")) => {
                let merged = schema.as_object().cloned().unwrap_or_default();
                self.scalar(&merged, kind, nullable)
            }
            _ => self.text(schema, nullable),
        }
    }

    fn lower_merged(&mut self, schema: &Value, mut merged: Map<String, Value>, depth: usize, nullable: bool) -> Value {
        let Some(keyword) = ["anyOf", "oneOf"].into_iter().find(|keyword| merged.contains_key(*keyword)) else {
            return self.lower_by_type(schema, &merged, depth, nullable);
        };
        let Some(Value::Array(branches)) = merged.shift_remove(keyword) else { return self.text(schema, nullable) };
        let is_null = |it: &Value| it.get("type").and_then(Value::as_str) == Some("null");
        let nullable = nullable || branches.iter().any(is_null);
        let others: Vec<_> = branches.into_iter().filter(|it| !is_null(it)).collect();
        if let Some(one_enum) = merge::as_one_enum(&others) {
            merged.extend(one_enum);
            return self.lower_merged(schema, merged, depth, nullable);
        }
        // Keywords next to `anyOf` apply to each branch. Descriptions apply to the whole.
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
        let mut builder = SchemaBuilder::default();
        words::add_rest(about, &[], self.subset.default, &mut builder.sentences);
        let mut choice = self.build(builder, about);
        choice["anyOf"] = Value::Array(lowered);
        choice
    }

    /// Writes a schema that the subset can't represent: a string of JSON text, which argument preparation decodes.
    /// Only a schema that accepts no strings is decoded. If it accepts strings, only strings can be passed.
    fn text(&mut self, schema: &Value, nullable: bool) -> Value {
        let quoted = words::short(&self.inline_references(schema));
        let sentence = if merge::accepts_string(self.root, schema, 0) {
            self.lose("a parameter accepts text and other types, which this provider's schemas cannot express");
            format!("Text only; the other types in this JSON Schema cannot be given here: {quoted}")
        } else {
            self.lowered.needs_decoding = true;
            format!("Write the value as JSON text that matches this JSON Schema: {quoted}")
        };
        let mut builder = self.builder("string", nullable);
        builder.sentences.push(sentence);
        self.build(builder, schema.as_object().unwrap_or(&Map::new()))
    }
}
