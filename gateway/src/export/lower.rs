//! From any JSON Schema to a provider's subset. Nothing is lost in silence: what can't be said in keywords is said in words.

use serde_json::{Map, Value, json};

use super::subset::Subset;

mod typed;
mod words;

/// How many subschemas one tool may have once its references are written out.
const MAX_SUBSCHEMAS: usize = 4000;

/// A schema in a subset.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) schema: Value,
    /// What is true of the arguments as a whole, for the tool's description.
    pub(super) remarks: Vec<String>,
    /// What got lost, for people.
    pub(super) notes: Vec<String>,
    /// Why a strict reading would keep a model from calls that fit.
    lost: Option<String>,
}

impl Lowered {
    /// Whether every call that fits can be written.
    pub(super) fn holds_all(&self) -> Result<(), String> {
        self.lost.clone().map_or(Ok(()), Err)
    }
}

/// Lowers a tool's schema: an object with no choices at its top.
pub(super) fn root(schema: &Value, subset: &Subset) -> Lowered {
    let mut lowering = Lowering { root: schema, subset, stack: Vec::new(), left: MAX_SUBSCHEMAS, lost: None };
    let (mut object, remarks) = lowering.plain_top(schema);
    let is_open =
        !object.contains_key("properties") && !matches!(object.get("additionalProperties"), Some(Value::Bool(false)));
    object.insert("type".to_owned(), "object".into());
    if subset.is_whole {
        object.shift_remove("$schema");
        return Lowered { schema: Value::Object(object), remarks, notes: Vec::new(), lost: None };
    }
    let is_map = matches!(object.get("additionalProperties"), Some(Value::Bool(true) | Value::Object(_)));
    let mut said = Vec::new();
    let description = object.shift_remove("description");
    let lowered = lowering.object(&object, 1, &mut said);
    let mut notes = Vec::new();
    if (is_open || is_map) && !subset.maps {
        let note = "it takes keys that it does not declare, which can't be said here";
        notes.push(note.to_owned());
        lowering.lost = Some(note.to_owned());
    }
    let about = description.and_then(|it| it.as_str().map(str::to_owned));
    let remarks = about.into_iter().chain(remarks).chain(said).collect();
    Lowered { schema: lowered, remarks, notes, lost: lowering.lost }
}

/// A schema on its way down.
pub(super) struct Lowering<'a> {
    root: &'a Value,
    subset: &'a Subset,
    /// The references that are being written out.
    stack: Vec<String>,
    left: usize,
    lost: Option<String>,
}

impl Lowering<'_> {
    /// The top as one plain object: parts of `allOf` taken together, choices turned into words.
    fn plain_top(&mut self, schema: &Value) -> (Map<String, Value>, Vec<String>) {
        let mut object = self.merged(schema, 0);
        let mut remarks = Vec::new();
        for keyword in ["anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired"] {
            if let Some(choice) = object.shift_remove(keyword) {
                // What the branches declare has to be there to be given.
                for branch in choice.as_array().into_iter().flatten().filter(|_| keyword.ends_with("Of")) {
                    let branch = self.merged(branch, 0);
                    adopt_properties(&mut object, branch.get("properties"));
                }
                remarks.push(words::of_keyword(keyword, &choice));
            }
        }
        (object, remarks)
    }

    /// A schema with its reference and its `allOf` written into it.
    fn merged(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let Some(object) = schema.as_object() else { return Map::new() };
        let mut merged = object.clone();
        if depth > 16 {
            return merged;
        }
        let target = merged.shift_remove("$ref").and_then(|it| self.resolve(it.as_str()?));
        let parts = merged.shift_remove("allOf");
        let parts = target.into_iter().chain(parts.as_ref().and_then(Value::as_array).cloned().into_iter().flatten());
        for part in parts {
            for (keyword, value) in self.merged(&part, depth + 1) {
                match (keyword.as_str(), merged.get_mut(&keyword)) {
                    ("properties", Some(_)) => adopt_properties(&mut merged, Some(&value)),
                    ("required", Some(Value::Array(there))) => {
                        there.extend(value.as_array().cloned().unwrap_or_default());
                    }
                    (_, Some(_)) => {}
                    (_, None) => drop(merged.insert(keyword, value)),
                }
            }
        }
        merged
    }

    fn resolve(&self, reference: &str) -> Option<Value> {
        self.root.pointer(reference.strip_prefix('#')?).cloned()
    }

    /// Any schema below the top. `nullable`: null has to be allowed as well.
    pub(super) fn any(&mut self, schema: &Value, depth: usize, nullable: bool) -> Value {
        let reference = schema.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let recursive = reference.as_ref().is_some_and(|it| self.stack.contains(it));
        let spent = self.left == 0 || depth > self.subset.depth;
        self.left = self.left.saturating_sub(1);
        if recursive || spent {
            return self.text(schema, nullable);
        }
        self.stack.extend(reference.clone());
        let merged = self.merged(schema, 0);
        let lowered = self.merged_any(schema, merged, depth, nullable);
        if reference.is_some() {
            self.stack.pop();
        }
        lowered
    }

    fn merged_any(&mut self, schema: &Value, mut merged: Map<String, Value>, depth: usize, nullable: bool) -> Value {
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(branches)) = merged.shift_remove(keyword) else { continue };
            let is_null = |it: &Value| it.get("type").and_then(Value::as_str) == Some("null");
            let nullable = nullable || branches.iter().any(is_null);
            let others: Vec<_> = branches.into_iter().filter(|it| !is_null(it)).collect();
            return match &others[..] {
                [] => self.text(schema, nullable),
                [only] => {
                    let only = self.merged(only, 0);
                    for (keyword, value) in only {
                        merged.entry(keyword).or_insert(value);
                    }
                    self.merged_any(schema, merged, depth, nullable)
                }
                _ if merged.contains_key("properties") || !self.subset.any_of => self.text(schema, nullable),
                several => self.choice(&merged, several, depth, nullable),
            };
        }
        typed::lower(self, schema, &merged, depth, nullable)
    }

    /// `anyOf` with the first branch that can be null if it has to.
    pub(super) fn choice(
        &mut self,
        merged: &Map<String, Value>,
        branches: &[Value],
        depth: usize,
        nullable: bool,
    ) -> Value {
        let lowered: Vec<_> = branches
            .iter()
            .enumerate()
            .map(|(index, branch)| self.any(branch, depth, nullable && index == 0))
            .collect();
        let mut said = Vec::new();
        words::say_rest(merged, &["description", "title", "default"], self.subset.default, &mut said);
        let mut object = Map::new();
        self.describe(&mut object, merged, &said);
        object.insert("anyOf".to_owned(), Value::Array(lowered));
        Value::Object(object)
    }

    /// What the subset has no form for: a string of JSON text. The call's preparation reads it back.
    pub(super) fn text(&mut self, schema: &Value, nullable: bool) -> Value {
        let merged = self.merged(schema, 0);
        let said = vec![format!("Write it as JSON text. It has to fit this JSON Schema: {}", words::short(schema))];
        let mut object = Map::new();
        object.insert("type".to_owned(), self.kind("string", nullable));
        self.describe(&mut object, &merged, &said);
        Value::Object(object)
    }

    /// A type, null with it if it has to and can be.
    pub(super) fn kind(&self, kind: &str, nullable: bool) -> Value {
        if nullable && self.subset.null_in_type { json!([kind, "null"]) } else { kind.into() }
    }

    /// Title and description, with what keywords can't say.
    pub(super) fn describe(&self, object: &mut Map<String, Value>, from: &Map<String, Value>, said: &[String]) {
        if let Some(title) = from.get("title").filter(|it| self.subset.title && it.is_string()) {
            object.insert("title".to_owned(), title.clone());
        }
        let own = from.get("description").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let parts: Vec<_> = std::iter::once(own).chain(said.iter().cloned()).filter(|it| !it.is_empty()).collect();
        if !parts.is_empty() {
            object.insert("description".to_owned(), parts.join(" ").into());
        }
    }
}

fn adopt_properties(object: &mut Map<String, Value>, properties: Option<&Value>) {
    let Some(new) = properties.and_then(Value::as_object) else { return };
    let there = object.entry("properties").or_insert_with(|| json!({}));
    if let Some(there) = there.as_object_mut() {
        for (name, schema) in new {
            there.entry(name.clone()).or_insert_with(|| schema.clone());
        }
    }
}
