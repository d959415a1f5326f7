//! Translates schemas of older drafts to 2020-12, the only draft that repairs, feedback and exports support.
//!
//! A keyword that the older draft does not define is dropped, because it has no meaning there. References by name
//! (`$anchor`, `$dynamicRef`, `$recursiveRef`) become pointers: a schema without nested `$id` is a single
//! resource, in which a dynamic reference has only one possible target.

use std::collections::HashMap;

use jsonschema::Draft;
use openskill_proto::uri_template::RESERVED;
use percent_encoding::{AsciiSet, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::schema::{self, Id, id};

/// The meta-schema of the target draft.
const META_SCHEMA: &str = "https://json-schema.org/draft/2020-12/schema";

/// The maximum total size of all pointers to subschemas, in bytes: a name repeats in the pointer of everything
/// below it.
const MAX_POINTER_BYTES: usize = 16 * 1024 * 1024;

/// What is percent-encoded in the fragment of a URI (RFC 3986, section 3.5).
const FRAGMENT: &AsciiSet = &{
    let (mut set, kept, mut at) = (RESERVED.remove(b'/'), b"!$&'()*+,:;=?@", 0);
    while at < kept.len() {
        set = set.remove(kept[at]);
        at += 1;
    }
    set
};

/// The keywords that have an effect next to a `$ref` before draft 2019-09: annotations, and definitions that
/// others refer to.
const ALONGSIDE_REFERENCE: [&str; 9] =
    ["$ref", "$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples"];

/// Translates a schema to draft 2020-12, from the draft that its `$schema` names.
///
/// The result differs in one case: in draft 4, 1.0 is not an integer.
///
/// # Errors
/// The schema is too large or too deep, has a nested `$id`, or gives one name to two subschemas.
pub fn to_2020_12(schema: &Value) -> Result<Value, String> {
    schema::check_size(schema)?;
    let draft = schema.get("$schema").and_then(Value::as_str).map_or(Draft::Draft202012, Draft::from_schema_uri);
    if draft == Draft::Unknown {
        return Ok(schema.clone());
    }
    let mut translation = Translation {
        root: schema,
        draft,
        pointers: HashMap::new(),
        pointer_bytes: 0,
        anchors: HashMap::new(),
        references: Vec::new(),
    };
    let translated = translation.schema(schema, String::new())?;
    translation.resolve(translated)
}

struct Translation<'a> {
    root: &'a Value,
    draft: Draft,
    /// The pointer to each subschema in the translation.
    pointers: HashMap<Id, String>,
    pointer_bytes: usize,
    /// The named subschemas.
    anchors: HashMap<&'a str, &'a Value>,
    /// The pointers to translated subschemas with a `$ref`, each with the reference.
    references: Vec<(String, &'a str)>,
}

/// A subschema under translation.
struct Subschema<'a> {
    given: &'a Value,
    object: &'a Map<String, Value>,
    /// The JSON Pointer to its translation.
    pointer: String,
    new: Map<String, Value>,
}

impl<'a> Translation<'a> {
    /// Translates a subschema whose new position is `pointer`.
    fn schema(&mut self, given: &'a Value, pointer: String) -> Result<Value, String> {
        self.count(&pointer)?;
        self.pointers.insert(id(given), pointer.clone());
        let Some(object) = given.as_object() else { return Ok(given.clone()) };
        let is_reference = self.draft <= Draft::Draft7 && object.get("$ref").is_some_and(Value::is_string);
        let mut subschema = Subschema { given, object, pointer, new: Map::new() };
        for (keyword, value) in object {
            let counts = !is_reference || ALONGSIDE_REFERENCE.contains(&keyword.as_str());
            if counts && since(keyword) <= self.draft {
                self.keyword(&mut subschema, keyword, value)?;
            }
        }
        Ok(Value::Object(subschema.new))
    }

    fn count(&mut self, pointer: &str) -> Result<(), String> {
        self.pointer_bytes += pointer.len();
        if self.pointer_bytes > MAX_POINTER_BYTES {
            return Err("its names are too long for the number of references to them".to_owned());
        }
        Ok(())
    }

    /// Adds the translation of a keyword to the new subschema.
    fn keyword(&mut self, to: &mut Subschema<'a>, keyword: &'a str, value: &'a Value) -> Result<(), String> {
        let object = to.object;
        let is_older = self.draft < Draft::Draft202012;
        let is_draft_4 = self.draft == Draft::Draft4;
        let is_exclusive = |keyword: &str| is_draft_4 && object.get(keyword) == Some(&Value::Bool(true));
        let is_tuple = is_older && object.get("items").is_some_and(Value::is_array);
        let name = match (keyword, value) {
            ("$schema", _) if is_older => {
                to.new.insert("$schema".to_owned(), META_SCHEMA.into());
                return Ok(());
            }
            ("id", Value::String(text)) if is_draft_4 => return self.identifier(to, text),
            ("$id", Value::String(text)) => return self.identifier(to, text),
            ("$dynamicAnchor", Value::String(name)) => return self.anchor(to.given, name),
            ("$anchor", Value::String(name)) => {
                self.anchor(to.given, name)?;
                "$anchor"
            }
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(text))
                if is_older || keyword != "$recursiveRef" =>
            {
                self.reference(to, keyword, text);
                return Ok(());
            }
            ("minimum", _) if is_exclusive("exclusiveMinimum") => "exclusiveMinimum",
            ("maximum", _) if is_exclusive("exclusiveMaximum") => "exclusiveMaximum",
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) if is_draft_4 => return Ok(()),
            ("definitions", _) if is_older && !object.contains_key("$defs") => "$defs",
            ("items", _) if is_tuple => "prefixItems",
            ("additionalItems", _) if is_tuple => "items",
            ("additionalItems" | "$recursiveAnchor", _) if is_older => return Ok(()),
            ("dependencies", Value::Object(all)) if is_older && !has_dependents(object, self.draft) => {
                return self.dependencies(to, all);
            }
            _ => keyword,
        };
        let mut value = self.within(keyword, value, &schema::join(&to.pointer, name))?;
        // `allOf` may already contain a reference that was added before.
        if name == "allOf"
            && let Value::Array(all) = &mut value
            && let Some(Value::Array(added)) = to.new.shift_remove(name)
        {
            all.extend(added);
        }
        to.new.insert(name.to_owned(), value);
        Ok(())
    }

    /// Translates the value of a keyword whose new position is `pointer`.
    fn within(&mut self, keyword: &str, value: &'a Value, pointer: &str) -> Result<Value, String> {
        match value {
            Value::Object(by_name) if schema::is_map(keyword) => {
                by_name.iter().map(|(name, it)| Ok((name.clone(), self.entry(it, pointer, name)?))).collect()
            }
            Value::Array(items) if schema::is_applicator(keyword) => {
                let items = items.iter().enumerate();
                items.map(|(at, it)| self.schema(it, schema::join(pointer, &at.to_string()))).collect()
            }
            Value::Object(_) | Value::Bool(_) if schema::is_applicator(keyword) => {
                self.schema(value, pointer.to_owned())
            }
            other => Ok(other.clone()),
        }
    }

    /// Translates one of several named subschemas. A value that is not a schema, such as a list of names, stays
    /// unchanged.
    fn entry(&mut self, value: &'a Value, pointer: &str, name: &str) -> Result<Value, String> {
        if value.is_array() { Ok(value.clone()) } else { self.schema(value, schema::join(pointer, name)) }
    }

    fn identifier(&mut self, to: &mut Subschema<'a>, text: &'a str) -> Result<(), String> {
        if let Some(name) = text.strip_prefix('#').filter(|_| self.draft <= Draft::Draft7) {
            // Before `$anchor`, `id` or `$id` named a subschema. Some generators write the subschema's own pointer
            // here.
            return if name.is_empty() || name.starts_with('/') { Ok(()) } else { self.anchor(to.given, name) };
        }
        if !std::ptr::eq(to.given, self.root) {
            // References below it would resolve against another base.
            return Err("$id is only supported at the top of a skill's schema".to_owned());
        }
        to.new.insert("$id".to_owned(), text.into());
        Ok(())
    }

    fn anchor(&mut self, given: &'a Value, name: &'a str) -> Result<(), String> {
        match self.anchors.insert(name, given) {
            Some(other) if !std::ptr::eq(other, given) => {
                let name: String = name.chars().take(64).collect();
                Err(format!("two subschemas have the $anchor '{name}'"))
            }
            _ => Ok(()),
        }
    }

    fn reference(&mut self, to: &mut Subschema<'a>, keyword: &str, text: &'a str) {
        if keyword == "$ref" || !to.object.contains_key("$ref") {
            to.new.insert("$ref".to_owned(), text.into());
            self.references.push((to.pointer.clone(), text));
            return;
        }
        // The subschema has both `$ref` and a dynamic reference.
        let declared = to.object.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        if let Value::Array(parts) = to.new.entry("allOf").or_insert_with(|| json!([])) {
            parts.push(json!({ "$ref": text }));
        }
        self.references.push((format!("{}/allOf/{declared}", to.pointer), text));
    }

    /// Splits `dependencies` into `dependentRequired` and `dependentSchemas`.
    fn dependencies(&mut self, to: &mut Subschema<'a>, all: &'a Map<String, Value>) -> Result<(), String> {
        for (name, value) in all {
            let keyword = if value.is_array() { "dependentRequired" } else { "dependentSchemas" };
            let value = self.entry(value, &schema::join(&to.pointer, keyword), name)?;
            if let Value::Object(by_name) = to.new.entry(keyword).or_insert_with(|| json!({})) {
                by_name.insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// Updates the references to the new positions of their targets. References without a target stay unchanged.
    fn resolve(mut self, mut translated: Value) -> Result<Value, String> {
        let mut at = 0;
        while let Some(text) = self.references.get(at).map(|(_, text)| *text) {
            at += 1;
            let Some(target) = self.target(text).filter(|it| !self.pointers.contains_key(&id(it))) else { continue };
            // The target is below an unknown keyword, so it was only copied. Translating it may add references,
            // and move the targets of others.
            let copy = self.pointer_in_copy(text);
            // Unknown keywords below it will be copied again, so translations inside it must be repeated.
            let (below, known) = (format!("{copy}/"), self.pointers.len());
            self.pointers.retain(|_, it| !it.starts_with(&below));
            if self.pointers.len() < known {
                at = 0;
            }
            let schema = self.schema(target, copy.clone())?;
            if let Some(place) = translated.pointer_mut(&copy) {
                *place = schema;
            }
        }
        for (pointer, text) in std::mem::take(&mut self.references) {
            let target = self.target(text).and_then(|it| self.pointers.get(&id(it)));
            let Some(written) = target.map(|it| format!("#{}", utf8_percent_encode(it, FRAGMENT))) else { continue };
            self.count(&written)?;
            let is_same = schema::percent_decode(&written) == schema::percent_decode(text);
            if let Some(Value::Object(object)) = translated.pointer_mut(&pointer).filter(|_| !is_same) {
                object.insert("$ref".to_owned(), written.into());
            }
        }
        Ok(translated)
    }

    /// Returns the position of a reference's target, if it is below an unknown keyword of a translated subschema.
    fn pointer_in_copy(&self, reference: &str) -> String {
        let place = schema::percent_decode(reference.split_once('#').map_or("", |(_, place)| place));
        let moved = place.rmatch_indices('/').find_map(|(at, _)| {
            let parent = self.pointers.get(&id(self.root.pointer(&place[..at])?))?;
            Some(format!("{parent}{}", &place[at..]))
        });
        moved.unwrap_or(place)
    }

    /// Finds the subschema that a reference points to.
    fn target(&self, text: &str) -> Option<&'a Value> {
        let base = ["$id", "id"].iter().find_map(|it| self.root.get(*it)?.as_str()).map(|it| it.trim_end_matches('#'));
        let local = base.and_then(|base| text.strip_prefix(base)).unwrap_or(text);
        match local.strip_prefix('#') {
            Some(name) if !name.is_empty() && !name.starts_with('/') => self.anchors.get(name).copied(),
            None if local.is_empty() => Some(self.root),
            _ => schema::lookup(self.root, local),
        }
    }
}

/// Returns the draft that introduced a keyword. Unknown keywords count as part of the first draft.
fn since(keyword: &str) -> Draft {
    match keyword {
        "const" | "contains" | "propertyNames" | "$id" => Draft::Draft6,
        "if" | "then" | "else" => Draft::Draft7,
        "$anchor" | "$recursiveRef" | "$recursiveAnchor" | "minContains" | "maxContains" => Draft::Draft201909,
        "dependentRequired" | "dependentSchemas" | "unevaluatedItems" | "unevaluatedProperties" => Draft::Draft201909,
        "prefixItems" | "$dynamicRef" | "$dynamicAnchor" => Draft::Draft202012,
        _ => Draft::Draft4,
    }
}

/// Whether a schema already has one of the keywords that replace `dependencies`.
fn has_dependents(object: &Map<String, Value>, draft: Draft) -> bool {
    ["dependentRequired", "dependentSchemas"].iter().any(|it| since(it) <= draft && object.contains_key(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declare_draft(number: &str, schema: Value) -> Value {
        let uri = match number {
            "2019-09" => "https://json-schema.org/draft/2019-09/schema".to_owned(),
            number => format!("http://json-schema.org/draft-{number}/schema#"),
        };
        let mut declared = json!({ "$schema": uri });
        let keywords = schema.as_object().cloned().unwrap_or_default();
        declared.as_object_mut().unwrap().extend(keywords);
        declared
    }

    fn translated(schema: &Value) -> Value {
        let mut new = to_2020_12(schema).unwrap();
        schema::check(&new).unwrap();
        schema::compile(&new).unwrap();
        new.as_object_mut().unwrap().shift_remove("$schema");
        new
    }

    #[test]
    fn keywords_of_older_drafts_become_their_successors() {
        for (draft, old, new) in [
            (
                "07",
                json!({"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false}),
                json!({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
            ),
            ("2019-09", json!({"items": [true], "additionalItems": {}}), json!({"prefixItems": [true], "items": {}})),
            (
                "07",
                json!({"items": {"type": "string"}, "additionalItems": false}),
                json!({"items": {"type": "string"}}),
            ),
            ("04", json!({"minimum": 0, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 0})),
            ("04", json!({"maximum": 9, "exclusiveMaximum": false}), json!({"maximum": 9})),
            ("06", json!({"exclusiveMinimum": 1, "minimum": 0}), json!({"exclusiveMinimum": 1, "minimum": 0})),
            (
                "07",
                json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
                json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
            ),
            (
                "04",
                json!({"id": "http://x/y#", "properties": {"id": {}}}),
                json!({"$id": "http://x/y#", "properties": {"id": {}}}),
            ),
            ("04", json!({"const": 1, "if": {}, "contains": {}, "type": "object"}), json!({"type": "object"})),
            ("06", json!({"const": 1, "if": {"const": 2}, "then": false}), json!({"const": 1})),
            ("07", json!({"unevaluatedProperties": false, "prefixItems": [false]}), json!({})),
            (
                "07",
                json!({"properties": {"a": {"$ref": "#/definitions/b", "description": "A.", "type": "object"}}, "definitions": {"b": {"type": "string"}}}),
                json!({"properties": {"a": {"$ref": "#/$defs/b", "description": "A."}}, "$defs": {"b": {"type": "string"}}}),
            ),
            // Data that looks like a schema stays unchanged.
            (
                "04",
                json!({"enum": [{"exclusiveMinimum": true}], "default": {"id": "x"}}),
                json!({"enum": [{"exclusiveMinimum": true}], "default": {"id": "x"}}),
            ),
        ] {
            assert_eq!(translated(&declare_draft(draft, old)), new, "draft {draft}");
        }
        assert_eq!(to_2020_12(&declare_draft("07", json!({}))).unwrap(), json!({ "$schema": META_SCHEMA }));
        let custom = json!({"$schema": "https://example.com/own", "items": [{}]});
        assert_eq!(to_2020_12(&custom).unwrap(), custom);
    }

    #[test]
    fn references_follow_what_they_point_at() {
        for (schema, references) in [
            (
                declare_draft(
                    "07",
                    json!({
                        "definitions": {"a b": {"items": [{"type": "string"}], "additionalItems": {"definitions": {"c": {}}}}},
                        "dependencies": {"x": {"minProperties": 2}},
                        "x-own": {"n": {"items": [{"$ref": "#/definitions/a%20b"}]}},
                        "properties": {
                            "1": {"$ref": "#/definitions/a%20b/items/0"},
                            "2": {"$ref": "#/definitions/a%20b/additionalItems/definitions/c"},
                            "3": {"$ref": "#/dependencies/x"},
                            "4": {"$ref": "#/x-own/n/items/0"},
                            "5": {"$ref": "#"},
                        },
                    }),
                ),
                vec![
                    "#/$defs/a%20b/prefixItems/0",
                    "#/$defs/a%20b/items/$defs/c",
                    "#/dependentSchemas/x",
                    "#/x-own/n/items/0",
                    "#",
                ],
            ),
            (
                declare_draft(
                    "07",
                    json!({
                        "x-own": {"n": {"items": [{"type": "string"}]}, "m": {"items": [{"type": "string"}]}},
                        "properties": {
                            "1": {"$ref": "#/x-own/n"},
                            "2": {"$ref": "#/x-own/n/items/0"},
                            "3": {"$ref": "#/x-own/m/items/0"},
                            "4": {"$ref": "#/x-own/m"},
                        },
                    }),
                ),
                vec!["#/x-own/n", "#/x-own/n/prefixItems/0", "#/x-own/m/prefixItems/0", "#/x-own/m"],
            ),
            (
                declare_draft(
                    "07",
                    json!({
                        "x-own": {"a": {"y": {"b": {"items": [{"type": "string"}]}}}},
                        "properties": {
                            "1": {"$ref": "#/x-own/a/y/b"},
                            "2": {"$ref": "#/x-own/a"},
                            "3": {"$ref": "#/x-own/a/y/b/items/0"},
                        },
                    }),
                ),
                vec!["#/x-own/a/y/b", "#/x-own/a", "#/x-own/a/y/b/prefixItems/0"],
            ),
            (
                json!({"$id": "https://x/s", "$defs": {"a": {"$anchor": "n"}, "b": {"$dynamicAnchor": "m"}}, "properties": {
                    "1": {"$ref": "#n"},
                    "2": {"$dynamicRef": "#m"},
                    "3": {"$ref": "https://x/s#/$defs/a"},
                    "4": {"$ref": "https://x/s"},
                }}),
                vec!["#/$defs/a", "#/$defs/b", "#/$defs/a", "#"],
            ),
            (
                declare_draft("06", json!({"definitions": {"a": {"$id": "#n"}}, "properties": {"1": {"$ref": "#n"}}})),
                vec!["#/$defs/a"],
            ),
            (
                declare_draft("04", json!({"definitions": {"a": {"id": "#n"}}, "properties": {"1": {"$ref": "#n"}}})),
                vec!["#/$defs/a"],
            ),
            (
                declare_draft(
                    "2019-09",
                    json!({"$recursiveAnchor": true, "properties": {"1": {"$recursiveRef": "#"}}}),
                ),
                vec!["#"],
            ),
        ] {
            let new = translated(&schema);
            for (at, expected) in references.iter().enumerate() {
                assert_eq!(new["properties"][(at + 1).to_string()]["$ref"], *expected, "{schema}");
                assert!(schema::lookup(&new, expected).is_some(), "{new}");
            }
        }
        let both = json!({"$defs": {"a": {"$anchor": "n", "minimum": 1}, "b": {"maximum": 9}},
            "properties": {"x": {"$ref": "#/$defs/b", "$dynamicRef": "#n", "allOf": [{"multipleOf": 5}]}}});
        let validator = schema::compile(&translated(&both)).unwrap();
        assert_eq!([0, 5, 6, 10].map(|x| validator.is_valid(&json!({ "x": x }))), [false, true, false, false]);
    }

    #[test]
    fn what_can_not_be_translated_is_refused_with_the_reason() {
        let reason = |schema: Value| to_2020_12(&schema).and_then(|it| schema::check(&it)).unwrap_err();
        assert!(
            reason(json!({"$defs": {"a": {"$id": "a"}}, "$ref": "a"})).contains("$id is only supported at the top")
        );
        assert!(reason(json!({"$ref": "#none"})).contains("does not resolve"));
        assert!(reason(json!({"$ref": "other#/a"})).contains("points outside"));
        let twice = json!({"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}});
        assert!(reason(twice).contains("two subschemas"));
        let name = "n".repeat(60_000);
        let below: Vec<Value> = (0..1000).map(|_| json!({"$ref": "#a"})).collect();
        let long = json!({"properties": {name: {"$anchor": "a", "type": "object"}, "b": {"anyOf": below}}});
        assert!(reason(long).contains("too long"));
    }
}
