//! The state of lowering one schema, and its result.

use serde_json::{Map, Value, json};

use crate::export::subset::Subset;

/// How many subschemas one tool may have once its references are inlined.
const MAX_SUBSCHEMAS: usize = 1500;

/// A schema in a provider's subset.
#[derive(Debug)]
pub(in crate::export) struct Lowered {
    pub(in crate::export) schema: Value,
    /// Sentences about the arguments as a whole, for the tool's description.
    pub(in crate::export) remarks: Vec<String>,
    /// What was lost, for people.
    pub(in crate::export) notes: Vec<String>,
    /// Whether a model's value for some parameter must be repaired: JSON text, or a key with other separators.
    pub(in crate::export) needs_decoding: bool,
    /// Whether a model must write null for parameters that it omits.
    pub(in crate::export) nulls_omit: bool,
    /// Why strict mode would keep a model from making some valid call.
    loss: Option<String>,
}

impl Lowered {
    /// Checks that a model can still make every valid call.
    pub(in crate::export) fn check_lossless(&self) -> Result<(), String> {
        self.loss.clone().map_or(Ok(()), Err)
    }
}

/// A schema being lowered.
pub(super) struct Lowering<'a> {
    /// The original schema.
    pub(super) root: &'a Value,
    pub(super) subset: &'a Subset,
    /// The references that are being inlined.
    pub(super) stack: Vec<String>,
    /// How many more subschemas may be written.
    pub(super) subschemas_left: usize,
    pub(super) needs_decoding: bool,
    pub(super) nulls_omit: bool,
    notes: Vec<String>,
    loss: Option<String>,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(root: &'a Value, subset: &'a Subset) -> Self {
        Self {
            root,
            subset,
            stack: Vec::new(),
            subschemas_left: MAX_SUBSCHEMAS,
            needs_decoding: false,
            nulls_omit: false,
            notes: Vec::new(),
            loss: None,
        }
    }

    pub(super) fn finish(self, schema: Value, remarks: Vec<String>) -> Lowered {
        let Self { notes, needs_decoding, nulls_omit, loss, .. } = self;
        Lowered { schema, remarks, notes, needs_decoding, nulls_omit, loss }
    }

    /// Records that some valid call can no longer be made. The first reason is kept.
    pub(super) fn lose(&mut self, reason: &str) {
        self.loss.get_or_insert_with(|| reason.to_owned());
    }

    /// Records a loss and notes it even if strict mode was not asked for.
    pub(super) fn lose_and_note(&mut self, reason: &str) {
        self.notes.push(reason.to_owned());
        self.lose(reason);
    }

    /// The value of `type`, with null if that is wanted and the subset allows it.
    pub(super) fn type_value(&self, kind: &str, nullable: bool) -> Value {
        if nullable && self.subset.null_in_type { json!([kind, "null"]) } else { kind.into() }
    }

    /// Adds the title and the description of `from`, extended by `sentences`.
    pub(super) fn describe(&self, object: &mut Map<String, Value>, from: &Map<String, Value>, sentences: &[String]) {
        if let Some(title) = from.get("title").filter(|it| self.subset.title && it.is_string()) {
            object.insert("title".to_owned(), title.clone());
        }
        let own = from.get("description").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let is_ended = own.is_empty() || sentences.is_empty() || own.ends_with(['.', '!', '?', ':', ';', ')']);
        let own = if is_ended { own } else { own + "." };
        let parts: Vec<_> = std::iter::once(own).chain(sentences.iter().cloned()).filter(|it| !it.is_empty()).collect();
        if !parts.is_empty() {
            object.insert("description".to_owned(), parts.join(" ").into());
        }
    }
}
