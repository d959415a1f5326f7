//! URI templates (RFC 6570): matches URIs and extracts the values of variables. Also percent-encoding (RFC 3986).
//!
//! Only expressions with one variable match: `{name}` and `{+name}`. A template with other expressions parses, but
//! matches no URI.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The maximum length of a URI that is matched, in bytes.
const MAX_URI_BYTES: usize = 8192;

/// The maximum number of variables in a template.
const MAX_VARIABLES: usize = 32;

/// A parsed URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The variables, each with the text before it.
    variables: Vec<(String, Variable)>,
    /// The text after the last variable.
    end: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: String,
    kind: ExpressionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpressionKind {
    /// `{name}`: any text without a slash.
    Simple,
    /// `{+name}`: any text.
    Reserved,
    /// Any other expression.
    Other,
}

impl Template {
    /// Parses a template. Returns `None` if its braces do not match, or it has too many variables.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut variables, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}')?;
            if before.contains('}') || expression.contains('{') || variables.len() == MAX_VARIABLES {
                return None;
            }
            variables.push((before.to_owned(), variable(expression)));
            rest = after;
        }
        (!rest.contains('}')).then(|| Self { variables, end: rest.to_owned() })
    }

    /// Whether all its expressions are `{name}` (level 1).
    pub fn is_simple(&self) -> bool {
        self.variables.iter().all(|(_, variable)| variable.kind == ExpressionKind::Simple)
    }

    /// Returns the names of its variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(_, variable)| variable.name.as_str())
    }

    /// Returns the percent-decoded values of the variables in a URI. `None` if the URI does not match.
    pub fn match_uri(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let mut rest = uri;
        let mut values = BTreeMap::new();
        if uri.len() > MAX_URI_BYTES {
            return None;
        }
        for (number, (before, variable)) in self.variables.iter().enumerate() {
            rest = rest.strip_prefix(before.as_str())?;
            // A value ends at the first occurrence of the text after it. The last value ends where the template's
            // last text begins.
            let next = self.variables.get(number + 1).map(|(before, _)| before.as_str());
            let length = match next {
                Some("") => return None,
                Some(next) => rest.find(next)?,
                None => rest.len().checked_sub(self.end.len())?,
            };
            let (value, after) = rest.split_at_checked(length)?;
            let fits = match variable.kind {
                ExpressionKind::Simple => !value.contains(['/', '?', '#']),
                ExpressionKind::Reserved => true,
                ExpressionKind::Other => false,
            };
            if value.is_empty() || !fits {
                return None;
            }
            let value = percent_decode_str(value).decode_utf8().ok()?.into_owned();
            let before = values.insert(variable.name.clone(), value.clone());
            if before.is_some_and(|it| it != value) {
                return None;
            }
            rest = after;
        }
        (rest == self.end).then_some(values)
    }
}

fn variable(expression: &str) -> Variable {
    let (kind, name) = match expression.strip_prefix('+') {
        Some(name) => (ExpressionKind::Reserved, name),
        None => (ExpressionKind::Simple, expression),
    };
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    Variable { name: name.to_owned(), kind: if is_name { kind } else { ExpressionKind::Other } }
}

/// The characters that are percent-encoded in a part of a URI: all but the unreserved ones of RFC 3986.
pub const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a text for any part of a URI.
pub fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn match_uri(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        Template::parse(template).unwrap().match_uri(uri).map(|it| it.into_iter().collect())
    }

    fn values(values: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_uri_that_fits_says_what_stands_in_the_places() {
        let template = "test://template/{id}/data";
        assert_eq!(match_uri(template, "test://template/123/data"), values(&[("id", "123")]));
        assert_eq!(match_uri(template, "test://template/a%2Fb%20c/data"), values(&[("id", "a/b c")]));
        for uri in ["test://template//data", "test://template/1/2/data", "test://template/1/data/", "test://x", ""] {
            assert_eq!(match_uri(template, uri), None, "{uri}");
        }
        assert_eq!(match_uri("a:{x}-{y}", "a:1-2-3"), values(&[("x", "1"), ("y", "2-3")]));
        assert_eq!(match_uri("file:///{+path}", "file:///a/b.txt"), values(&[("path", "a/b.txt")]));
        assert_eq!(match_uri("a:{x}/{x}", "a:1/2"), None, "one name has one value");
        assert_eq!(match_uri("a:{x}", "a:%ff"), None, "it is no text");
        assert_eq!(match_uri("a:b", "a:b"), values(&[]));
    }

    #[test]
    fn what_is_no_template_is_refused_and_what_is_another_kind_fits_nothing() {
        for text in ["a:{x", "a:x}", "a:{x{y}}", "a:}{"] {
            assert_eq!(Template::parse(text), None, "{text}");
        }
        for text in ["a:{?q}", "a:{x,y}", "a:{x*}", "a:{}"] {
            let template = Template::parse(text).unwrap();
            assert!(!template.is_simple() && template.match_uri("a:1").is_none(), "{text}");
        }
        assert_eq!(match_uri("a:{x}{y}", "a:12"), None, "it is not known where the first ends");
    }
}
