//! From any JSON Schema to a provider's subset. Nothing is lost in silence: what can't be said in keywords is said in words,
//! and a tool for which words are not enough is not exported as strict.

use serde_json::{Map, Value, json};

use super::subset::Subset;

mod merge;
mod typed;
mod words;

/// How many subschemas one tool may have once its references are written out.
const MAX_SUBSCHEMAS: usize = 1500;

/// A schema in a subset.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) schema: Value,
    /// What is true of the arguments as a whole, for the tool's description.
    pub(super) remarks: Vec<String>,
    /// What got lost, for people.
    pub(super) notes: Vec<String>,
    /// Whether a model has to write JSON text for some parameter.
    pub(super) has_text: bool,
    /// Whether a model has to write null for what it leaves out.
    pub(super) has_null_for_nothing: bool,
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
    let mut lowering = Lowering::new(schema, subset);
    let (mut object, mut remarks) = lowering.plain_top(schema);
    object.insert("type".to_owned(), "object".into());
    if subset.is_whole {
        object.shift_remove("$schema");
        let names: Vec<String> =
            object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
        // Its schema stays as it is, so its names do; the note is what matters.
        let as_declared = Map::new();
        names.iter().for_each(|name| drop(lowering.key(name, &as_declared, 1)));
        return lowering.finish(Value::Object(object), remarks);
    }
    let takes_any = match object.get("additionalProperties") {
        Some(further) => *further != Value::Bool(false),
        None => !object.contains_key("properties"),
    };
    if takes_any && !subset.maps {
        lowering.note("it takes keys that it does not declare, which can't be said here");
    }
    let about = object.shift_remove("description").and_then(|it| it.as_str().map(str::to_owned));
    let mut said = Vec::new();
    let lowered = lowering.object(&object, 1, &mut said);
    remarks.splice(0..0, about);
    remarks.extend(said);
    lowering.finish(lowered, remarks)
}

/// A schema on its way down.
pub(super) struct Lowering<'a> {
    root: &'a Value,
    subset: &'a Subset,
    /// The references that are being written out.
    stack: Vec<String>,
    left: usize,
    notes: Vec<String>,
    has_text: bool,
    has_null_for_nothing: bool,
    lost: Option<String>,
}

impl<'a> Lowering<'a> {
    fn new(root: &'a Value, subset: &'a Subset) -> Self {
        Self {
            root,
            subset,
            stack: Vec::new(),
            left: MAX_SUBSCHEMAS,
            notes: Vec::new(),
            has_text: false,
            has_null_for_nothing: false,
            lost: None,
        }
    }

    fn finish(self, schema: Value, remarks: Vec<String>) -> Lowered {
        Lowered {
            schema,
            remarks,
            notes: self.notes,
            has_text: self.has_text,
            has_null_for_nothing: self.has_null_for_nothing,
            lost: self.lost,
        }
    }

    /// Remembers that some call that fits can't be written.
    pub(super) fn lose(&mut self, what: &str) {
        self.lost.get_or_insert_with(|| what.to_owned());
    }

    /// The same, and says so also where nothing is strict.
    fn note(&mut self, what: &str) {
        self.notes.push(what.to_owned());
        self.lose(what);
    }

    /// The top as one plain object: parts of `allOf` taken together, choices turned into words.
    fn plain_top(&mut self, schema: &Value) -> (Map<String, Value>, Vec<String>) {
        let mut object = self.merged(schema, &mut Vec::new());
        let mut remarks = Vec::new();
        for keyword in
            ["anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"]
        {
            let Some(choice) = object.shift_remove(keyword) else { continue };
            self.lose("a choice at the top of its schema can only be said in words");
            // What the branches declare has to be there to be given.
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
            remarks.push(words::of_keyword(keyword, &self.written_out(&choice)));
        }
        (object, remarks)
    }

    /// Any schema below the top. `nullable`: null has to be allowed as well.
    pub(super) fn any(&mut self, schema: &Value, depth: usize, nullable: bool) -> Value {
        if self.left == 0 || depth > self.subset.depth {
            return self.at_the_end(schema, nullable);
        }
        self.left -= 1;
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

    /// What is left to say when there is no place to go deeper: scalars as they are, all else as text.
    fn at_the_end(&mut self, schema: &Value, nullable: bool) -> Value {
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
        if let Some(words) = merge::as_one_enum(&others) {
            merged.extend(words);
            return self.merged_any(schema, merged, depth, nullable);
        }
        // What stands beside the choice holds for each branch; what describes it describes the choice.
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

    /// `anyOf` with the first branch that can be null if it has to.
    pub(super) fn choice(
        &mut self,
        about: &Map<String, Value>,
        branches: Vec<Value>,
        depth: usize,
        nullable: bool,
    ) -> Value {
        let lowered: Vec<_> = branches
            .iter()
            .enumerate()
            .map(|(index, branch)| self.any(branch, depth, nullable && index == 0))
            .collect();
        let mut said = Vec::new();
        words::say_rest(about, &[], self.subset.default, &mut said);
        let mut object = Map::new();
        self.describe(&mut object, about, &said);
        object.insert("anyOf".to_owned(), Value::Array(lowered));
        Value::Object(object)
    }

    /// What the subset has no form for: a string of JSON text, which the call's preparation reads back. That it can do
    /// only where the schema itself takes no string; otherwise the string is taken as it stands.
    pub(super) fn text(&mut self, schema: &Value, nullable: bool) -> Value {
        let quoted = words::short(&self.written_out(schema));
        let said = if merge::takes_string(self.root, schema, 0) {
            self.lose("a parameter takes more than text, which can't be said here");
            format!("Text; other forms that this JSON Schema allows can't be given here: {quoted}")
        } else {
            self.has_text = true;
            format!("Write it as JSON text. It has to fit this JSON Schema: {quoted}")
        };
        let mut object = Map::new();
        object.insert("type".to_owned(), self.kind("string", nullable));
        self.describe(&mut object, schema.as_object().unwrap_or(&Map::new()), &[said]);
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
        let ends = own.is_empty() || said.is_empty() || own.ends_with(['.', '!', '?', ':', ';', ')']);
        let own = if ends { own } else { own + "." };
        let parts: Vec<_> = std::iter::once(own).chain(said.iter().cloned()).filter(|it| !it.is_empty()).collect();
        if !parts.is_empty() {
            object.insert("description".to_owned(), parts.join(" ").into());
        }
    }
}
