//! The state of lowering one schema, and the result.

use serde_json::{Map, Value, json};

use crate::export::subset::Subset;

/// The maximum number of subschemas in one tool after its references are inlined.
const MAX_SUBSCHEMAS: usize = 1500;

/// A schema in a provider's subset.
#[derive(Debug, Default)]
pub(in crate::export) struct Lowered {
    pub(in crate::export) schema: Value,
    /// Sentences about the arguments as a whole, for the tool's description.
    pub(in crate::export) remarks: Vec<String>,
    /// What was lost, in words for people.
    pub(in crate::export) notes: Vec<String>,
    /// Whether a model's value for some parameter must be repaired: JSON text, or a key with other separators.
    pub(in crate::export) needs_decoding: bool,
    /// Whether a model must write null for parameters that it omits.
    pub(in crate::export) nulls_omit: bool,
    /// Why strict mode would prevent some valid call. None if it prevents none.
    loss: Option<String>,
}

impl Lowered {
    /// Checks that a model can still make every valid call. The error is the first reason why not.
    pub(in crate::export) fn check_lossless(&self) -> Result<(), String> {
        self.loss.clone().map_or(Ok(()), Err)
    }
}

/// A schema being lowered.
pub(super) struct Lowering<'a> {
    /// The original schema.
    pub(super) root: &'a Value,
    pub(super) subset: &'a Subset,
    /// The references that are currently being inlined.
    pub(super) stack: Vec<String>,
    /// The number of subschemas that may still be written.
    pub(super) subschemas_left: usize,
    /// The result so far, without its schema and remarks.
    pub(super) lowered: Lowered,
}

/// A schema under construction, with what its keywords can't express.
#[derive(Default)]
pub(super) struct SchemaBuilder {
    pub(super) object: Map<String, Value>,
    pub(super) sentences: Vec<String>,
}

impl SchemaBuilder {
    pub(super) fn insert(&mut self, keyword: &str, value: impl Into<Value>) {
        self.object.insert(keyword.to_owned(), value.into());
    }
}

impl<'a> Lowering<'a> {
    pub(super) fn new(root: &'a Value, subset: &'a Subset) -> Self {
        Self { root, subset, stack: Vec::new(), subschemas_left: MAX_SUBSCHEMAS, lowered: Lowered::default() }
    }

    pub(super) fn finish(self, schema: Value, remarks: Vec<String>) -> Lowered {
        Lowered { schema, remarks, ..self.lowered }
    }

    /// Records that some valid call can't be made any more. Keeps the first reason.
    pub(super) fn lose(&mut self, reason: &str) {
        self.lowered.loss.get_or_insert_with(|| reason.to_owned());
    }

    /// Records a loss, and notes it even if strict mode was not requested.
    pub(super) fn lose_and_note(&mut self, reason: &str) {
        self.lowered.notes.push(reason.to_owned());
        self.lose(reason);
    }

    /// Starts a schema with its type, plus null if `nullable` is set and the subset allows it.
    pub(super) fn builder(&self, kind: &str, nullable: bool) -> SchemaBuilder {
        let mut builder = SchemaBuilder::default();
        let allows_null = nullable && self.subset.null_in_type;
        builder.insert("type", if allows_null { json!([kind, "null"]) } else { kind.into() });
        builder
    }

    /// Finishes a schema with the title and the description of `from`, extended by the builder's sentences.
    pub(super) fn build(&self, mut builder: SchemaBuilder, from: &Map<String, Value>) -> Value {
        if let Some(title) = from.get("title").filter(|it| self.subset.title && it.is_string()) {
            builder.insert("title", title.clone());
        }
        let sentences = std::mem::take(&mut builder.sentences);
        let own = from.get("description").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let is_ended = own.is_empty() || sentences.is_empty() || own.ends_with(['.', '!', '?', ':', ';', ')']);
        let own = if is_ended { own } else { own + "." };
        let parts: Vec<_> = std::iter::once(own).chain(sentences).filter(|it| !it.is_empty()).collect();
        if !parts.is_empty() {
            builder.insert("description", parts.join(" "));
        }
        Value::Object(builder.object)
    }
}
