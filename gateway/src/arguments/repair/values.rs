//! Rules for values: strings with only one possible meaning, enum words in another case, nulls for optional
//! parameters.

use std::collections::HashMap;

use jsonschema::error::{TypeKind, ValidationErrorKind as ErrorKind};
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use openskill_skill::schema::is_map;
use serde_json::Value;

use super::state::{Edit, MAX_ERRORS, Repairer};
use crate::arguments::fold::{exactly_one, fold_word};
use crate::arguments::kind::Kind;
use crate::arguments::parse::lenient;
use crate::arguments::schema::resolve;
use crate::arguments::tree::{self, Tree};

/// The maximum number of branches that are tried per `anyOf`, and the maximum nesting of `anyOf`.
const MAX_BRANCHES: usize = 16;
const MAX_NESTING: usize = 3;

/// Changes each value that has exactly one possible change. Returns whether any was changed.
pub(super) fn fix(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let edits = edits(repairer, errors, 0);
    repairer.apply_all(edits)
}

fn edits(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>], nesting: usize) -> Vec<Edit> {
    let mut paths: Vec<&str> = Vec::new();
    let mut by_path: HashMap<&str, Vec<&ValidationError<'_>>> = HashMap::new();
    for error in errors.iter().take(MAX_ERRORS) {
        let path = error.instance_path().as_str();
        let here = by_path.entry(path).or_default();
        if here.is_empty() {
            paths.push(path);
        }
        here.push(error);
    }
    let mut chosen: Vec<Edit> = Vec::new();
    for path in paths {
        let mut proposals: Vec<Proposal> = Vec::new();
        for error in by_path.get(path).into_iter().flatten() {
            for proposal in propose(repairer, error, path, nesting) {
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

/// A value that the model may have meant.
#[derive(Debug, PartialEq)]
struct Proposal {
    /// The replacement. None removes the value.
    new: Option<Tree>,
    /// The edits that produce it.
    edits: Vec<Edit>,
}

impl Proposal {
    fn at(path: &str, kind: Kind, new: Option<Tree>) -> Self {
        Self { new: new.clone(), edits: vec![Edit { path: path.to_owned(), kind, new }] }
    }
}

/// Returns what the value at `path` may mean. `error` refers to that value.
fn propose(repairer: &mut Repairer<'_>, error: &ValidationError<'_>, path: &str, nesting: usize) -> Vec<Proposal> {
    let Some(value) = repairer.tree.at(path).cloned() else { return Vec::new() };
    let is_type_error =
        matches!(error.kind(), ErrorKind::Type { .. } | ErrorKind::Enum { .. } | ErrorKind::Constant { .. })
            || matches!(error.kind(), ErrorKind::AnyOf { .. } | ErrorKind::OneOfNotValid { .. });
    if value == Tree::Null {
        // If the key was required, the next round finds that, and the call is rejected.
        let parent = tree::split(path).and_then(|(parent, _)| repairer.tree.at(parent));
        let of_object = parent.is_some_and(|parent| parent.fields().is_some());
        let dropped = Proposal::at(path, Kind::NullDropped, None);
        return if is_type_error && of_object && is_declared(error) { vec![dropped] } else { Vec::new() };
    }
    let simple = match error.kind() {
        ErrorKind::Type { kind } => for_types(&value, types(kind), repairer.failing_schema(error), repairer.schema),
        ErrorKind::Enum { options } => for_options(&value, options.as_array().map_or(&[], Vec::as_slice)),
        ErrorKind::Constant { expected_value } => for_options(&value, std::slice::from_ref(expected_value)),
        ErrorKind::AnyOf { context } | ErrorKind::OneOfNotValid { context } => {
            return for_branches(repairer, context, path, nesting);
        }
        _ => Vec::new(),
    };
    simple.into_iter().map(|(kind, new)| Proposal::at(path, kind, Some(new))).collect()
}

pub(super) fn types(kind: &TypeKind) -> JsonTypeSet {
    match kind {
        TypeKind::Single(one) => (*one).into(),
        TypeKind::Multiple(several) => *several,
    }
}

/// Reads a string as one of the allowed types, where a string is not allowed.
fn for_types(value: &Tree, wanted: JsonTypeSet, schema: Option<&Value>, root: &Value) -> Vec<(Kind, Tree)> {
    let Some(text) = value.as_text() else { return Vec::new() };
    let number = || Tree::Number(text.to_owned());
    let read_as = |kind: JsonType| match kind {
        JsonType::Boolean => boolean(text).map(|it| (Kind::StringToBoolean, Tree::Bool(it))),
        JsonType::Integer => is_integer(text).then(|| (Kind::StringToInteger, number())),
        // If integers are also allowed, both rules give the same number, which counts once.
        JsonType::Number => is_decimal(text).then(|| (Kind::StringToNumber, number())),
        JsonType::Array => list(text, schema, root).map(|it| (Kind::StringToArray, it)),
        JsonType::Object => object(text).map(|it| (Kind::StringToObject, it)),
        JsonType::Null | JsonType::String => None,
    };
    wanted.iter().filter_map(read_as).collect()
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Whether a text is a canonical integer: `5` or `-12`, not `05`, `+5`, `5.0`, `1e3` or `1,000`.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    plain && (digits == "0" || !digits.starts_with('0')) && text != "-0" && is_finite(text)
}

/// Whether a text is a canonical number without an exponent.
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

/// Reads a value that spans the whole text.
fn parse_complete(text: &str) -> Option<Tree> {
    lenient::parse_complete(text).ok().map(|(tree, _)| tree)
}

/// Reads an object that spans the whole text.
pub(super) fn object(text: &str) -> Option<Tree> {
    parse_complete(text).filter(|it| matches!(it, Tree::Object(_)))
}

/// Reads an array from a string: in JSON or Python syntax, or separated by commas if each item can only be a number
/// or an enum word. Other text with commas may be a single text, and is not split.
fn list(text: &str, schema: Option<&Value>, root: &Value) -> Option<Tree> {
    if let Some(list @ Tree::List(_)) = parse_complete(text) {
        return Some(list);
    }
    let items = resolve(root, schema?.get("items")?);
    let parts: Vec<_> = text.split(',').map(str::trim).collect();
    // A single part would wrap a scalar in an array, which the model may not have meant.
    if parts.len() < 2 || text.len() > 4096 {
        return None;
    }
    if let Some(options) = items.get("enum").and_then(Value::as_array) {
        let is_option = |part: &&str| options.iter().any(|option| option.as_str() == Some(part));
        let has_comma = options.iter().any(|option| option.as_str().is_none_or(|it| it.contains(',')));
        let is_list = !has_comma && parts.iter().all(is_option);
        return is_list.then(|| Tree::List(parts.iter().map(|part| Tree::Text((*part).to_owned())).collect()));
    }
    // A space after every comma means several numbers.
    let (commas, spaced) = (text.matches(',').count(), text.matches(", ").count());
    let is_several = spaced == commas || (spaced == 0 && !may_be_one_number(&parts));
    let is_list = match items.get("type").and_then(Value::as_str) {
        Some("integer") => is_several && parts.iter().all(|part| is_integer(part)),
        Some("number") => is_several && parts.iter().all(|part| is_decimal(part)),
        _ => false,
    };
    is_list.then(|| Tree::List(parts.iter().map(|part| Tree::Number((*part).to_owned())).collect()))
}

/// Whether the parts between commas may form one number. In some countries, `1,5` is one and a half, and `1,000` is
/// a thousand. `1,2,3` can only be three numbers.
fn may_be_one_number(parts: &[&str]) -> bool {
    let [_, middle @ .., last] = parts else { return true };
    let are_digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    if middle.is_empty() && are_digits(last) {
        return true;
    }
    let whole = last.split_once('.').map_or(*last, |(whole, _)| whole);
    let is_group = |text: &str, length: usize| text.len() == length && are_digits(text);
    // The lengths of digit groups in the West, in India and in East Asia.
    [(3, 3), (2, 3), (4, 4)]
        .iter()
        .any(|(inner, end)| middle.iter().all(|it| is_group(it, *inner)) && is_group(whole, *end))
}

/// Returns the only allowed value that a string can stand for.
fn for_options(value: &Tree, options: &[Value]) -> Vec<(Kind, Tree)> {
    let Some(text) = value.as_text() else { return Vec::new() };
    let folded = fold_word(text);
    let is_word = |option: &Value| option.as_str().is_some_and(|it| fold_word(it) == folded);
    if let Some(option) = exactly_one(options, |option| is_word(option)) {
        return vec![(Kind::EnumFold, Tree::from_value(option))];
    }
    let kind_of = |option: &Value| match option {
        Value::Bool(it) if boolean(text) == Some(*it) => Some(Kind::StringToBoolean),
        Value::Number(it) if is_integer(text) && it.to_string() == text => Some(Kind::StringToInteger),
        Value::Number(it) if is_decimal(text) && it.to_string() == text => Some(Kind::StringToNumber),
        _ => None,
    };
    // If several words match, the meaning is ambiguous.
    let only = exactly_one(options, |option| kind_of(option).is_some()).filter(|_| !options.iter().any(is_word));
    only.and_then(|option| Some((kind_of(option)?, Tree::from_value(option)))).into_iter().collect()
}

/// Proposes changes to the value, or within it, that make it match one branch of an `anyOf`. Validates each one by
/// trial.
fn for_branches(
    repairer: &mut Repairer<'_>,
    context: &[Vec<ValidationError<'static>>],
    path: &str,
    nesting: usize,
) -> Vec<Proposal> {
    // Propose nothing if the model may have meant another branch: one that is not tried, or one that accepts
    // strings but rejects this one.
    let is_text = repairer.tree.at(path).is_some_and(|value| value.as_text().is_some());
    if nesting >= MAX_NESTING
        || context.len() > MAX_BRANCHES
        || (is_text && context.iter().any(|errors| accepts_strings(errors, path)))
    {
        return Vec::new();
    }
    let mut found: Vec<Proposal> = Vec::new();
    for errors in context {
        let edits = edits(repairer, errors, nesting + 1);
        if edits.is_empty() {
            continue;
        }
        if !repairer.take_trial() {
            return Vec::new();
        }
        let mut changed = repairer.tree.clone();
        for edit in &edits {
            edit.clone().apply_to(&mut changed);
        }
        let new = changed.at(path).cloned();
        if !found.iter().any(|other| other.new == new) && repairer.is_valid_at(&changed, path) {
            found.push(Proposal { new, edits });
        }
    }
    found
}

/// Whether a branch accepts strings, but rejects this one for a reason other than its type or an enum.
fn accepts_strings(errors: &[ValidationError<'static>], path: &str) -> bool {
    let is_about_type = |error: &ValidationError<'_>| {
        matches!(error.kind(), ErrorKind::Type { .. } | ErrorKind::AnyOf { .. } | ErrorKind::OneOfNotValid { .. })
            || matches!(error.kind(), ErrorKind::Enum { .. } | ErrorKind::Constant { .. } | ErrorKind::FalseSchema)
    };
    !errors.iter().any(|error| error.instance_path().as_str() == path && is_about_type(error))
}

/// Whether an error refers to the value of a declared key. In a map, keys are data, and so is a null.
pub(super) fn is_declared(error: &ValidationError<'_>) -> bool {
    let path = error.evaluation_path().as_str();
    let mut segments = path.split('/').skip(1);
    let mut declared = false;
    while let Some(keyword) = segments.next() {
        match keyword {
            "properties" => declared = true,
            "patternProperties" | "additionalProperties" | "unevaluatedProperties" => declared = false,
            _ => {}
        }
        // Skip the following name or index, which may look like a keyword.
        if is_map(keyword) || ["allOf", "anyOf", "oneOf", "prefixItems"].contains(&keyword) {
            segments.next();
        }
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_may_be_groups_of_digits_or_a_fraction_are_not_several_numbers() {
        let is_one = |text: &str| may_be_one_number(&text.split(',').collect::<Vec<_>>());
        for text in ["1,5", "1.234,5", "1,000", "1,000.5", "1,234,567", "12,34,567", "1,2345,6789", "-1,5"] {
            assert!(is_one(text), "{text}");
        }
        for text in ["1,2,3", "10,20,30", "1.5,2.5", "43.6,-79.3", "1,000,5", "1,2,500", "0.1,0.2,0.3"] {
            assert!(!is_one(text), "{text}");
        }
    }

    #[test]
    fn only_canonical_numbers_are_read() {
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
