//! The packages that an operator allows in sessions. Pure.

use std::str::FromStr;

/// The maximum number of entries, and the maximum length of an entry in bytes.
const MOST: usize = 512;
const MAX_BYTES: usize = 200;

/// The maximum length of a package name, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// The characters of version specifiers, such as `>=2,<3` and `==1.0+cpu`.
const OF_SPECIFIERS: &str = "<>=!~,.*+_-";

/// The reason why no packages can be installed if the list is empty. This is not an error: the operator has not
/// enabled it.
pub(crate) const NONE_ALLOWED: &str =
    "no package is allowed in sessions: an operator lists allowed ones in OPENSKILL_SESSION_PACKAGES";

/// The allowed packages, each with its allowed versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Allowed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    /// The normalized package name.
    name: String,
    /// The version specifiers, or an empty string for all versions.
    versions: String,
}

/// The reasons why a text is not a valid list of packages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoList {
    /// This entry is not a name with optional versions.
    #[error("'{0}' is not a package: write names with optional versions between spaces, such as numpy pandas>=2,<3")]
    Entry(String),
    /// The list has too many entries.
    #[error("it has more than {MOST} packages")]
    TooMany,
}

impl FromStr for AllowList {
    type Err = NoList;

    /// Parses entries that are separated by white space.
    fn from_str(text: &str) -> Result<Self, NoList> {
        let mut all = Vec::new();
        for entry in text.split_whitespace() {
            let end = entry.find(|it: char| !is_of_name(it)).unwrap_or(entry.len());
            let (name, versions) = entry.split_at(end);
            let specifies = versions.starts_with(['<', '>', '=', '!', '~'])
                && versions.chars().all(|it| it.is_ascii_alphanumeric() || OF_SPECIFIERS.contains(it));
            if entry.len() > MAX_BYTES || !is_name(name) || !(versions.is_empty() || specifies) {
                return Err(NoList::Entry(entry.chars().take(MAX_BYTES).collect()));
            }
            all.push(Allowed { name: normalize_name(name), versions: versions.to_owned() });
        }
        if all.len() > MOST {
            return Err(NoList::TooMany);
        }
        all.sort_by(|one, other| (&one.name, &one.versions).cmp(&(&other.name, &other.versions)));
        Ok(Self(all))
    }
}

impl AllowList {
    /// Returns whether no package is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the list contains the package with this normalized name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.name == name)
    }

    /// Returns the most similar name on the list, if one is similar enough. The given name may be a typo or
    /// typosquatting.
    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        let plain = |name: &str| name.replace('-', "");
        let wanted = plain(name);
        let distance = |it: &Allowed| {
            let other = plain(&it.name);
            let affixed = ["python", "py", "python3", "lib"]
                .iter()
                .any(|affix| wanted == format!("{affix}{other}") || wanted == format!("{other}{affix}"));
            let distance = if affixed { 1 } else { strsim::damerau_levenshtein(&wanted, &other) };
            let most = if other.len() < 5 { 1 } else { 2 };
            (distance <= most).then_some(distance)
        };
        let near = self.0.iter().filter_map(|it| Some((distance(it)?, it.name.as_str())));
        near.min().map(|(_, name)| name)
    }

    /// Returns the allowed versions as lines of a constraints file.
    pub(crate) fn constraints(&self) -> String {
        self.0.iter().filter(|it| !it.versions.is_empty()).map(|it| format!("{}{}\n", it.name, it.versions)).collect()
    }

    /// Returns the whole list as text, for cache keys that depend on it.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|it| format!("{}{} ", it.name, it.versions)).collect()
    }
}

/// Returns whether a text is a valid package name.
pub(crate) fn is_name(text: &str) -> bool {
    let ends = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    text.len() <= MAX_NAME_BYTES
        && text.chars().all(is_of_name)
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

fn is_of_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-')
}

/// Normalizes the spelling of a name: `Foo.Bar` and `foo_bar` become `foo-bar`.
pub(crate) fn normalize_name(name: &str) -> String {
    let parts = name.split(['.', '_', '-']).filter(|it| !it.is_empty());
    parts.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> AllowList {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_has_names_and_versions() {
        let found = list("  Foo_Bar  numpy>=1.26,<3\n six==1.16.0 ");
        assert!(found.has("foo-bar") && found.has("numpy") && found.has("six") && !found.has("foo"));
        assert_eq!(found.constraints(), "numpy>=1.26,<3\nsix==1.16.0\n");
        assert!(list("").is_empty() && !found.is_empty());
        for wrong in ["*", "-e", "foo@https://x", "foo[bar]", "foo>=2;x", "../x", "foo>=1 --hash=x", "foo bar-"] {
            assert!(matches!(wrong.parse::<AllowList>(), Err(NoList::Entry(_))), "{wrong}");
        }
        assert_eq!("a ".repeat(MOST + 1).parse::<AllowList>(), Err(NoList::TooMany));
    }

    #[test]
    fn a_name_that_resembles_an_allowed_one_is_told() {
        let found = list("numpy requests six python-dateutil");
        for (name, near) in [
            ("nunpy", Some("numpy")),
            ("numpyy", Some("numpy")),
            ("reqeusts", Some("requests")),
            ("request", Some("requests")),
            ("python-numpy", Some("numpy")),
            ("pythondateutil", Some("python-dateutil")),
            ("sux", Some("six")),
            ("tox", None),
            ("pandas", None),
        ] {
            assert_eq!(found.nearest(name), near, "{name}");
        }
    }

    #[test]
    fn names_have_one_spelling() {
        assert_eq!(normalize_name("Foo.-_Bar"), "foo-bar");
        assert!(is_name("a") && is_name("a.b-c_d9") && !is_name("") && !is_name("-a") && !is_name("a b"));
        assert!(!is_name(&"a".repeat(101)));
    }
}
