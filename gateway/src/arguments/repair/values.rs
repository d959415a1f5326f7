//! Values of the wrong type that can mean one thing only, words in the wrong case, and nulls for what is optional.

use std::collections::HashMap;

use jsonschema::error::{TypeKind, ValidationErrorKind as Wrong};
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::{MAX_ERRORS, Repairer, fold};
use crate::arguments::Kind;
use crate::arguments::parse::lenient;
use crate::arguments::schema::resolved;
use crate::arguments::tree::{self, Tree};

/// How many branches of one `anyOf` are tried, and how deep such choices nest.
const MAX_BRANCHES: usize = 16;
const MAX_NESTING: usize = 3;

/// A change of one place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// None takes the key out.
    pub(super) new: Option<Tree>,
}

impl Edit {
    /// Makes the change. Whether the place was there.
    pub(super) fn put_into(self, tree: &mut Tree) -> bool {
        match self.new {
            Some(new) => tree.at_mut(&self.path).map(|place| *place = new).is_some(),
            None => tree::split(&self.path).and_then(|(parent, key)| tree.at_mut(parent)?.remove(&key)).is_some(),
        }
    }
}

/// The changes that these errors call for: one for each place where exactly one comes into question.
pub(super) fn edits(it: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> Vec<Edit> {
    edits_within(it, errors, 0)
}

fn edits_within(it: &mut Repairer<'_>, errors: &[ValidationError<'_>], nesting: usize) -> Vec<Edit> {
    let mut places: Vec<&str> = Vec::new();
    let mut by_place: HashMap<&str, Vec<&ValidationError<'_>>> = HashMap::new();
    for error in errors.iter().take(MAX_ERRORS) {
        let path = error.instance_path().as_str();
        let here = by_place.entry(path).or_default();
        if here.is_empty() {
            places.push(path);
        }
        here.push(error);
    }
    let mut chosen: Vec<Edit> = Vec::new();
    for path in places {
        let mut proposals: Vec<Proposal> = Vec::new();
        for error in by_place.get(path).into_iter().flatten() {
            for proposal in propose(it, error, path, nesting) {
                if !proposals.iter().any(|other| other.new == proposal.new) {
                    proposals.push(proposal);
                }
            }
        }
        if let Ok([proposal]) = <[Proposal; 1]>::try_from(proposals) {
            chosen.extend(proposal.edits);
        }
    }
    chosen
}

/// What may be meant by a value.
#[derive(Debug, PartialEq)]
struct Proposal {
    /// What would stand in its place; none if nothing would.
    new: Option<Tree>,
    /// The changes that lead there.
    edits: Vec<Edit>,
}

impl Proposal {
    fn at(path: &str, kind: Kind, new: Option<Tree>) -> Self {
        Self { new: new.clone(), edits: vec![Edit { path: path.to_owned(), kind, new }] }
    }
}

/// What could be meant by the value at `path`, which this error complains of.
fn propose(it: &mut Repairer<'_>, error: &ValidationError<'_>, path: &str, nesting: usize) -> Vec<Proposal> {
    let Some(value) = it.tree.at(path).cloned() else { return Vec::new() };
    let choice = matches!(error.kind(), Wrong::Type { .. } | Wrong::Enum { .. } | Wrong::Constant { .. })
        || matches!(error.kind(), Wrong::AnyOf { .. } | Wrong::OneOfNotValid { .. });
    if value == Tree::Null {
        // Whether it was required shows in the next round: then the call is refused.
        let of_object =
            tree::split(path).is_some_and(|(parent, _)| it.tree.at(parent).is_some_and(|it| it.fields().is_some()));
        let dropped = Proposal::at(path, Kind::NullDropped, None);
        return if choice && of_object && is_declared(error) { vec![dropped] } else { Vec::new() };
    }
    let simple = match error.kind() {
        Wrong::Type { kind } => for_types(&value, types(kind), it.subschema(error), it.schema),
        Wrong::Enum { options } => for_options(&value, options.as_array().map_or(&[], Vec::as_slice)),
        Wrong::Constant { expected_value } => for_options(&value, std::slice::from_ref(expected_value)),
        Wrong::AnyOf { context } | Wrong::OneOfNotValid { context } => return branches(it, context, path, nesting),
        _ => Vec::new(),
    };
    simple.into_iter().map(|(kind, new)| Proposal::at(path, kind, new)).collect()
}

fn types(kind: &TypeKind) -> JsonTypeSet {
    match kind {
        TypeKind::Single(one) => (*one).into(),
        TypeKind::Multiple(several) => *several,
    }
}

/// A string where none is allowed, read as what is.
fn for_types(value: &Tree, wanted: JsonTypeSet, schema: Option<&Value>, root: &Value) -> Vec<(Kind, Option<Tree>)> {
    let Some(text) = value.as_text() else { return Vec::new() };
    let mut found = Vec::new();
    if wanted.contains(JsonType::Boolean)
        && let Some(it) = boolean(text)
    {
        found.push((Kind::StringToBoolean, Some(Tree::Bool(it))));
    }
    let number = || Some(Tree::Number(text.to_owned()));
    if wanted.contains(JsonType::Integer) && is_integer(text) {
        found.push((Kind::StringToInteger, number()));
    } else if wanted.contains(JsonType::Number) && is_decimal(text) {
        found.push((Kind::StringToNumber, number()));
    }
    if wanted.contains(JsonType::Array)
        && let Some(list) = list(text, schema, root)
    {
        found.push((Kind::StringToArray, Some(list)));
    }
    if wanted.contains(JsonType::Object)
        && let Some(object @ Tree::Object(_)) = whole(text)
    {
        found.push((Kind::StringToObject, Some(object)));
    }
    found
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// An integer as JSON writes it, and in no other way: `5`, `-12`, not `05`, `+5`, `5.0`, `1e3`, `1,000`.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    plain && (digits == "0" || !digits.starts_with('0')) && text != "-0" && is_finite(text)
}

/// A number as JSON writes it without an exponent.
fn is_decimal(text: &str) -> bool {
    match text.split_once('.') {
        None => is_integer(text),
        Some((whole, fraction)) => {
            let digits = !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit());
            digits && (is_integer(whole) || whole == "-0") && is_finite(text)
        }
    }
}

fn is_finite(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The value that fills a text.
pub(super) fn whole(text: &str) -> Option<Tree> {
    lenient::whole(text).ok().map(|(tree, _)| tree)
}

/// A list written into a string: as JSON or Python writes it; or, where each item can only be a number or one of a few
/// words, with commas between them. Free text with commas may be one text: that is not taken apart.
fn list(text: &str, schema: Option<&Value>, root: &Value) -> Option<Tree> {
    if let Some(list @ Tree::List(_)) = whole(text) {
        return Some(list);
    }
    let items = resolved(root, schema?.get("items")?);
    let parts: Vec<_> = text.split(',').map(str::trim).collect();
    // One alone would be a scalar put into a list, which may not be what was meant.
    if parts.len() < 2 || text.len() > 4096 {
        return None;
    }
    if let Some(options) = items.get("enum").and_then(Value::as_array) {
        let is_option = |part: &&str| options.iter().any(|option| option.as_str() == Some(part));
        let comma_within = options.iter().any(|option| option.as_str().is_none_or(|it| it.contains(',')));
        let fits = !comma_within && parts.iter().all(is_option);
        return fits.then(|| Tree::List(parts.iter().map(|part| Tree::Text((*part).to_owned())).collect()));
    }
    // `1,000` may be a thousand and `1,5` one and a half; with a blank behind each comma they are several numbers.
    let apart = text.matches(',').count() == text.matches(", ").count();
    let fits = match items.get("type").and_then(Value::as_str) {
        Some("integer") => apart && parts.iter().all(|part| is_integer(part)),
        Some("number") => apart && parts.iter().all(|part| is_decimal(part)),
        _ => false,
    };
    fits.then(|| Tree::List(parts.iter().map(|part| Tree::Number((*part).to_owned())).collect()))
}

/// The only one of the allowed values that is written like this one.
fn for_options(value: &Tree, options: &[Value]) -> Vec<(Kind, Option<Tree>)> {
    let Some(text) = value.as_text() else { return Vec::new() };
    let folded = fold::word(text);
    if let Some(option) = fold::only(options, |option| option.as_str().is_some_and(|it| fold::word(it) == folded)) {
        return vec![(Kind::EnumFold, Some(Tree::from_value(option)))];
    }
    let kind_of = |option: &Value| match option {
        Value::Bool(it) if boolean(text) == Some(*it) => Some(Kind::StringToBoolean),
        Value::Number(it) if is_integer(text) && it.to_string() == text => Some(Kind::StringToInteger),
        Value::Number(it) if is_decimal(text) && it.to_string() == text => Some(Kind::StringToNumber),
        _ => None,
    };
    // If any of the words is written like it too, both may be meant.
    let any_word = options.iter().any(|option| option.as_str().is_some_and(|it| fold::word(it) == folded));
    let only = fold::only(options, |option| kind_of(option).is_some()).filter(|_| !any_word);
    only.and_then(|option| Some((kind_of(option)?, Some(Tree::from_value(option))))).into_iter().collect()
}

/// A value that fits none of several subschemas: what would make it fit one of them, by changes to the value itself or
/// within it. Each is tried; what comes of it must be free of errors.
fn branches(
    it: &mut Repairer<'_>,
    context: &[Vec<ValidationError<'static>>],
    path: &str,
    nesting: usize,
) -> Vec<Proposal> {
    // What is not tried may be what was meant: then nothing is proposed. A branch that takes a string, only not this one,
    // is one that was meant as well.
    let is_text = it.tree.at(path).is_some_and(|value| value.as_text().is_some());
    if nesting >= MAX_NESTING
        || context.len() > MAX_BRANCHES
        || (is_text && context.iter().any(|it| takes_text(it, path)))
    {
        return Vec::new();
    }
    let mut found: Vec<Proposal> = Vec::new();
    for errors in context {
        let edits = edits_within(it, errors, nesting + 1);
        if edits.is_empty() {
            continue;
        }
        if !it.may_try() {
            return Vec::new();
        }
        let mut changed = it.tree.clone();
        for edit in &edits {
            edit.clone().put_into(&mut changed);
        }
        let new = changed.at(path).cloned();
        if !found.iter().any(|other| other.new == new) && it.is_clean(&changed, path) {
            found.push(Proposal { new, edits });
        }
    }
    found
}

/// Whether a branch complains of a string for something else than being one, or not the word it wants.
fn takes_text(errors: &[ValidationError<'static>], path: &str) -> bool {
    let about_kind = |error: &ValidationError<'_>| {
        let choice = matches!(error.kind(), Wrong::Enum { .. } | Wrong::Constant { .. } | Wrong::FalseSchema);
        choice || matches!(error.kind(), Wrong::Type { .. } | Wrong::AnyOf { .. } | Wrong::OneOfNotValid { .. })
    };
    !errors.iter().any(|error| error.instance_path().as_str() == path && about_kind(error))
}

/// Whether the value that an error complains of stands at a declared key, and is not one of a map, where keys are data.
fn is_declared(error: &ValidationError<'_>) -> bool {
    let place = error.evaluation_path().as_str();
    let last = |keyword: &str| place.rfind(keyword);
    last("/properties/") > last("/additionalProperties").max(last("/patternProperties/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_numbers_are_numbers() {
        for text in ["0", "-12", "12345678901234567890123"] {
            assert!(is_integer(text), "{text}");
            assert!(is_decimal(text), "{text}");
        }
        for text in ["0.5", "-0.25", "5.0", "1.50"] {
            assert!(is_decimal(text) && !is_integer(text), "{text}");
        }
        for text in ["", "-", "05", "+5", "1e3", "1,000", " 5", ".5", "5.", "0x10", "NaN", "٣", "-0", "--1", "1.2.3"] {
            assert!(!is_integer(text) && !is_decimal(text), "{text}");
        }
        assert!(!is_integer(&"9".repeat(400)));
    }
}
