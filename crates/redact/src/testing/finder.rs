//! Finds parts of planted secrets in a system's output.

use std::collections::{BTreeMap, HashMap};

use super::places::Planted;

/// The minimum length of a part that is found, in bytes.
const PART: usize = 12;

/// Searches for the parts of many secrets at once.
#[derive(Debug)]
pub struct Finder<'p> {
    planted: &'p [Planted],
    /// The index of the secret that contains each part.
    parts: HashMap<[u8; PART], usize>,
}

impl<'p> Finder<'p> {
    /// Creates a finder for these secrets.
    pub fn new(planted: &'p [Planted]) -> Self {
        let mut parts = HashMap::new();
        for (index, planted) in planted.iter().enumerate() {
            // The labels of private keys are not secret.
            let lines = planted.secret.text.lines().filter(|line| !line.starts_with("-----"));
            let secret = plain(&lines.collect::<String>());
            for part in secret.as_bytes().windows(PART) {
                parts.extend(part.try_into().map(|part: [u8; PART]| (part, index)));
            }
        }
        Self { planted, parts }
    }

    /// Finds the secrets of which a text contains at least 12 consecutive bytes. Returns each index with the first
    /// part found. Escapes, spaces, URL encoding and base64 do not hide a secret.
    pub fn find(&self, output: &str) -> BTreeMap<usize, String> {
        let mut found = BTreeMap::new();
        for reading in readings(output) {
            for part in reading.as_bytes().windows(PART) {
                if let Some(index) = self.parts.get(part) {
                    found.entry(*index).or_insert_with(|| String::from_utf8_lossy(part).into_owned());
                }
            }
        }
        found
    }

    /// Returns the secret with this index.
    pub fn planted(&self, index: usize) -> &'p Planted {
        &self.planted[index]
    }
}

/// Removes escaped line breaks, spaces and backslashes.
fn plain(text: &str) -> String {
    text.replace("\\n", "").replace(['\\', '\n', ' '], "")
}

/// Returns the text and its decoded forms.
fn readings(text: &str) -> Vec<String> {
    let percent = decoded(text, "%", 2);
    let unicode = decoded(text, "\\u", 4);
    let runs = |text: &str| {
        let runs = text.split(|it: char| !(it.is_ascii_alphanumeric() || "+/=".contains(it)));
        let decode = |run: &str| crate::values::base64::decode(run.as_bytes(), run.len());
        // Decode at all four offsets, because the beginning of a run may be missing.
        let all = runs.filter(|run| run.len() >= 24).flat_map(|run| (0..4).map(move |from| decode(&run[from..])));
        all.map(|it| plain(&String::from_utf8_lossy(&it))).collect::<Vec<_>>().join("\n")
    };
    let encoded = [runs(text), runs(&percent), runs(&text.replace("\\n", ""))];
    [plain(text), plain(&percent), plain(&unicode)].into_iter().chain(encoded).collect()
}

/// Replaces each mark and the hexadecimal digits after it with the byte that they encode.
fn decoded(text: &str, mark: &str, digits: usize) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + mark.len()..];
        let code = rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[digits..];
            }
            None => out.extend_from_slice(mark.as_bytes()),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::places::planted;
    use super::*;

    #[test]
    fn every_planted_secret_is_found_where_it_was_planted() {
        let planted = planted(7, 500);
        let finder = Finder::new(&planted);
        for (index, it) in planted.iter().enumerate() {
            assert!(finder.find(&it.text).contains_key(&index), "{} in {}: {}", it.secret.shape, it.place, it.text);
        }
    }

    #[test]
    fn escaped_and_cut_text_hides_nothing() {
        let planted = planted(8, 300);
        let finder = Finder::new(&planted);
        for (index, it) in planted.iter().enumerate() {
            let cut = &it.text[it.text.ceil_char_boundary(1)..];
            let debugged = format!("DEBUG stderr={cut:?}");
            assert!(finder.find(&debugged).contains_key(&index), "{} in {}: {debugged}", it.secret.shape, it.place);
        }
    }

    #[test]
    fn masks_and_labels_are_no_part_of_a_secret() {
        let planted = planted(9, 500);
        let finder = Finder::new(&planted);
        assert!(finder.find("-----BEGIN OPENSSH PRIVATE KEY-----\n***\n-----END PRIVATE KEY-----").is_empty());
        assert!(finder.find("").is_empty());
    }
}
