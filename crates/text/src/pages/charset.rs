//! Decodes a page according to its byte order mark, its `Content-Type` header, or its `<meta>` tag; otherwise as
//! UTF-8 or Windows-1252.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How many bytes of a page are searched for `<meta charset>`.
const META_BYTES: usize = 4096;

/// Decodes a page. Replaces bytes that are invalid in its charset with U+FFFD.
pub fn decode(bytes: &[u8], content_type: &str) -> String {
    let named = label(content_type).and_then(|it| Encoding::for_label(it.as_bytes())).or_else(|| from_meta(bytes));
    // Without a declared charset, use UTF-8 if the page is valid UTF-8, and otherwise the default of browsers.
    let usual = || if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 };
    // A byte order mark comes before both.
    named.unwrap_or_else(usual).decode(bytes).0.into_owned()
}

/// Returns the value after `charset=`.
fn label(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, rest) = lower.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = rest.find(['"', '\'', ';', ' ', '>', '/']).unwrap_or(rest.len());
    rest.get(..end).map(str::to_owned).filter(|it| !it.is_empty())
}

/// Returns the charset declared by a `<meta>` tag.
fn from_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..bytes.len().min(META_BYTES)).unwrap_or_default();
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let meta = head.split("<meta").skip(1).find_map(|it| label(it.split('>').next().unwrap_or_default()))?;
    let encoding = Encoding::for_label(meta.as_bytes())?;
    // The page was readable as ASCII up to the tag, so it is not UTF-16.
    Some(if encoding.output_encoding() == encoding { encoding } else { UTF_8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charset_is_found_where_it_is_named() {
        let chinese = encoding_rs::GBK.encode("北京是中国的首都。").0.into_owned();
        assert_eq!(decode(&chinese, "text/html; charset=GBK"), "北京是中国的首都。");
        let page = [
            b"<html><head><meta http-equiv=\"Content-Type\" content=\"text/html; charset=gb2312\">",
            chinese.as_slice(),
        ];
        assert!(decode(&page.concat(), "text/html").ends_with("北京是中国的首都。"));
        assert_eq!(decode("\u{feff}é".as_bytes(), "text/plain; charset=latin1"), "é");
        assert_eq!(decode(b"caf\xe9", ""), "café");
        assert_eq!(decode("é".as_bytes(), ""), "é");
    }
}
