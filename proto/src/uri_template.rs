//! Templates of URIs, RFC 6570: which URI fits one, and what stands in its places.
//!
//! Expressions with one variable are matched: `{name}` and `{+name}`. A template with others is read, and fits no URI.

use std::collections::BTreeMap;

/// The longest URI that is matched, in bytes.
const MAX_URI_BYTES: usize = 8192;

/// How many places a template may have.
const MAX_PLACES: usize = 32;

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The text before each place, and the place.
    places: Vec<(String, Place)>,
    /// The text after the last place.
    end: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `{name}`: anything without a slash.
    Simple,
    /// `{+name}`: anything.
    Reserved,
    /// Any other expression.
    Other,
}

impl Template {
    /// Reads a template. None: its braces do not match, or it has too many places.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut places, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}')?;
            if before.contains('}') || expression.contains('{') || places.len() == MAX_PLACES {
                return None;
            }
            places.push((before.to_owned(), place(expression)));
            rest = after;
        }
        (!rest.contains('}')).then(|| Self { places, end: rest.to_owned() })
    }

    /// Whether all its places are `{name}`: level 1.
    pub fn is_simple(&self) -> bool {
        self.places.iter().all(|(_, place)| place.kind == Kind::Simple)
    }

    /// The names of its places.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(_, place)| place.name.as_str())
    }

    /// What stands in the places of a URI, percent-decoded. None: the URI does not fit.
    pub fn matched(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let mut rest = uri;
        let mut values = BTreeMap::new();
        if uri.len() > MAX_URI_BYTES {
            return None;
        }
        for (number, (before, place)) in self.places.iter().enumerate() {
            rest = rest.strip_prefix(before.as_str())?;
            // A value ends where the text after it begins first; the last one where the end of the URI allows it.
            let next = self.places.get(number + 1).map(|(before, _)| before.as_str());
            let length = match next {
                Some("") => return None,
                Some(next) => rest.find(next)?,
                None => rest.len().checked_sub(self.end.len())?,
            };
            let (value, after) = rest.split_at_checked(length)?;
            let fits = match place.kind {
                Kind::Simple => !value.contains(['/', '?', '#']),
                Kind::Reserved => true,
                Kind::Other => false,
            };
            if value.is_empty() || !fits {
                return None;
            }
            let value = decoded(value)?;
            let before = values.insert(place.name.clone(), value.clone());
            if before.is_some_and(|it| it != value) {
                return None;
            }
            rest = after;
        }
        (rest == self.end).then_some(values)
    }
}

fn place(expression: &str) -> Place {
    let (kind, name) = match expression.strip_prefix('+') {
        Some(name) => (Kind::Reserved, name),
        None => (Kind::Simple, expression),
    };
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    Place { name: name.to_owned(), kind: if is_name { kind } else { Kind::Other } }
}

/// A percent-encoded text. None if it is no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|it| char::from(*it).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        Template::parse(template).unwrap().matched(uri).map(|it| it.into_iter().collect())
    }

    fn values(values: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_uri_that_fits_says_what_stands_in_the_places() {
        let template = "test://template/{id}/data";
        assert_eq!(matched(template, "test://template/123/data"), values(&[("id", "123")]));
        assert_eq!(matched(template, "test://template/a%2Fb%20c/data"), values(&[("id", "a/b c")]));
        for uri in ["test://template//data", "test://template/1/2/data", "test://template/1/data/", "test://x", ""] {
            assert_eq!(matched(template, uri), None, "{uri}");
        }
        assert_eq!(matched("a:{x}-{y}", "a:1-2-3"), values(&[("x", "1"), ("y", "2-3")]));
        assert_eq!(matched("file:///{+path}", "file:///a/b.txt"), values(&[("path", "a/b.txt")]));
        assert_eq!(matched("a:{x}/{x}", "a:1/2"), None, "one name has one value");
        assert_eq!(matched("a:{x}", "a:%ff"), None, "it is no text");
        assert_eq!(matched("a:b", "a:b"), values(&[]));
    }

    #[test]
    fn what_is_no_template_is_refused_and_what_is_another_kind_fits_nothing() {
        for text in ["a:{x", "a:x}", "a:{x{y}}", "a:}{"] {
            assert_eq!(Template::parse(text), None, "{text}");
        }
        for text in ["a:{?q}", "a:{x,y}", "a:{x*}", "a:{}"] {
            let template = Template::parse(text).unwrap();
            assert!(!template.is_simple() && template.matched("a:1").is_none(), "{text}");
        }
        assert_eq!(matched("a:{x}{y}", "a:12"), None, "it is not known where the first ends");
    }
}
