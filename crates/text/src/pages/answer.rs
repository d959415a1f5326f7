//! Composes an answer from verbatim quotes, each followed by its citation number.

/// The answer if no source was found.
pub const NOTHING_FOUND: &str = "nothing found";

/// The maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 8 * 1024;

/// Joins quotes. The citation number of a quote is its position, counted from 1.
pub fn compose<'a>(quotes: impl IntoIterator<Item = &'a str>) -> String {
    let mut answer = String::new();
    for (number, quote) in quotes.into_iter().enumerate() {
        let part = format!("{}“{}” [{}]", if answer.is_empty() { "" } else { "\n" }, quote, number + 1);
        if answer.len() + part.len() > MAX_ANSWER_BYTES {
            break;
        }
        answer.push_str(&part);
    }
    if answer.is_empty() { NOTHING_FOUND.to_owned() } else { answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_numbered_and_no_quote_is_nothing_found() {
        assert_eq!(compose(["One.", "Two."]), "“One.” [1]\n“Two.” [2]");
        assert_eq!(compose([]), NOTHING_FOUND);
        assert!(compose(std::iter::repeat_n("word ".repeat(500).as_str(), 100)).len() <= MAX_ANSWER_BYTES);
    }
}
