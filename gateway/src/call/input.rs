//! The arguments of a call as text that should be JSON, with their cost to parse.

use std::borrow::Cow;

use bytes::Bytes;
use openskill_proto::json::Survey;
use openskill_proto::limits::{MAX_JSON_VALUES, MAX_REQUEST_BYTES};
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{ErrorCode, SkillError};

use super::blocking_pool::{HEAVY_BYTES, HEAVY_VALUES, LIGHT_BYTES};
use crate::arguments::structs;

/// The estimated memory of one parsed value without its text, in bytes.
const VALUE_BYTES: usize = 128;

/// The arguments of a call.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// `Bytes`, so that valid text can be forwarded without a copy.
    json: Bytes,
    values: usize,
    /// Whether to parse it off the shard's thread.
    pub(super) is_heavy: bool,
    /// Whether it was received as a `Struct`, so that the result is sent as a `Value`.
    pub(super) is_struct: bool,
}

impl Input {
    /// Reads the arguments of a request.
    ///
    /// # Errors
    /// They have too many values, or are a `Struct` that can't be converted to JSON text.
    pub(crate) fn read(arguments: Option<Arguments>) -> Result<Self, SkillError> {
        let (text, is_struct) = match arguments {
            // For a tool without parameters, models write an empty text or null.
            Some(Arguments::InputJson(text)) if matches!(text.trim(), "" | "null") => ("{}".to_owned(), false),
            Some(Arguments::InputJson(text) | Arguments::Call(text)) => (text, false),
            Some(Arguments::Input(fields)) => (write(&fields)?, true),
            None => ("{}".to_owned(), true),
        };
        let (values, is_heavy) = weigh(&text)?;
        Ok(Self { json: text.into(), values, is_heavy, is_struct })
    }

    /// An empty placeholder for arguments that can't be read.
    pub(crate) fn unreadable(is_struct: bool) -> Self {
        Self { json: Bytes::new(), values: 0, is_heavy: false, is_struct }
    }

    /// Estimates the memory that it takes until the call ends, in bytes: the text and its parsed form.
    pub(crate) fn size(&self) -> usize {
        self.json.len() + self.values * VALUE_BYTES
    }

    /// The text, which should be JSON.
    pub(crate) fn text(&self) -> &str {
        // Always UTF-8, because it was created from a `String`.
        std::str::from_utf8(&self.json).unwrap_or_default()
    }

    /// Returns the bytes of `fitting`. If it borrows this text, shares them instead of copying.
    pub(crate) fn bytes_of(&self, fitting: Cow<'_, str>) -> Bytes {
        match fitting {
            Cow::Borrowed(text) if text.len() == self.json.len() => self.json.clone(),
            other => Bytes::from(other.into_owned()),
        }
    }
}

/// Whether to read the arguments of a request off the shard's thread. A raw call is read leniently, which takes
/// longer.
pub(crate) fn is_heavy_to_read(arguments: Option<&Arguments>) -> bool {
    match arguments {
        Some(Arguments::Call(text)) => text.len() > LIGHT_BYTES,
        Some(Arguments::InputJson(text)) => text.len() > HEAVY_BYTES,
        Some(Arguments::Input(fields)) => prost::Message::encoded_len(fields) > LIGHT_BYTES,
        None => false,
    }
}

/// Returns the approximate number of values in a text, and whether the text is heavy.
///
/// # Errors
/// The text has too many values.
pub(crate) fn weigh(text: &str) -> Result<(usize, bool), SkillError> {
    if text.len() <= LIGHT_BYTES {
        return Ok((0, false));
    }
    let survey = Survey::scan(text.as_bytes(), MAX_JSON_VALUES);
    if survey.values > MAX_JSON_VALUES && survey.is_plain {
        return Err(SkillError::new(ErrorCode::InvalidArgument, crate::arguments::too_many_values()));
    }
    let is_heavy = text.len() > HEAVY_BYTES || survey.values > HEAVY_VALUES || !survey.is_plain;
    Ok((survey.values, is_heavy))
}

/// Converts a `Struct` to JSON text, which may be longer.
fn write(fields: &prost_types::Struct) -> Result<String, SkillError> {
    let invalid = |message: String| SkillError::new(ErrorCode::InvalidArgument, message);
    let text = structs::to_json(fields).map_err(|error| invalid(error.to_string()))?;
    if text.len() > MAX_REQUEST_BYTES {
        return Err(invalid(format!("the input is over {MAX_REQUEST_BYTES} bytes as JSON")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Input, SkillError> {
        Input::read(Some(Arguments::InputJson(text.to_owned())))
    }

    fn list(values: usize) -> String {
        format!("{{\"a\":[{}]}}", vec!["1"; values - 2].join(","))
    }

    #[test]
    fn arguments_count_by_what_parsing_makes_of_them() {
        let text = format!("{{\"text\":\"{}\"}}", "[1,".repeat(100_000));
        let (dense, plain) = (read(&list(100_000)).unwrap(), read(&text).unwrap());
        assert!(dense.size() > 12_000_000, "{}", dense.size());
        assert!(plain.size() < text.len() + 1000, "{}", plain.size());
    }

    #[test]
    fn too_many_values_are_refused_by_name_of_the_bound() {
        assert!(read(&list(MAX_JSON_VALUES)).is_ok());
        let error = read(&list(MAX_JSON_VALUES + 1)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message.contains("100000 values"), "{error:?}");
    }

    #[test]
    fn many_values_much_text_and_what_only_a_lenient_reader_takes_are_heavy() {
        let long = |length: usize| format!("{{\"text\":\"{}\"}}", "x".repeat(length));
        for (text, expected) in [
            (long(10), false),
            (long(60_000), false),
            (long(70_000), true),
            (list(900), false),
            (list(3000), true),
            (format!("{} // one", long(5000)), true),
            (format!("{} // one", long(100)), false),
        ] {
            assert_eq!(read(&text).unwrap().is_heavy, expected, "{} bytes", text.len());
        }
    }

    #[test]
    fn valid_text_is_passed_on_without_a_copy() {
        let input = read("{\"a\": 1}").unwrap();
        let text = input.text();
        assert_eq!(input.bytes_of(Cow::Borrowed(text)).as_ptr(), text.as_ptr());
        assert_eq!(input.bytes_of(Cow::Owned("{}".to_owned())), "{}");
    }
}
