//! Web search: opens the results page of a search engine in the browser.

use serde_json::Value;
use url::Url;

use super::problem::Problem;
use crate::config::browser::QUERY;

/// Signs of a captcha page in its address, and in its text.
const ADDRESSES: [&str; 4] = ["/sorry/", "/showcaptcha", "captcha", "/challenge"];
const TEXTS: [&str; 6] = [
    "unusual traffic from your computer network",
    "our systems have detected unusual traffic",
    "i'm not a robot",
    "are you a robot",
    "verify you are human",
    "complete the security check",
];

/// Returns the address of the results page for a query.
///
/// # Errors
/// The configured template is not a valid address.
pub(super) fn address(template: &str, query: &str) -> Result<Url, Problem> {
    let encoded: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    Url::parse(&template.replace(QUERY, &encoded))
        .map_err(|_| Problem::Argument("OPENSKILL_BROWSER_SEARCH_URL is not an address".to_owned()))
}

/// Checks that the engine shows results instead of a captcha.
///
/// # Errors
/// It shows a captcha.
pub(super) fn check(url: &str, content: &Value) -> Result<(), Problem> {
    let path = Url::parse(url).map(|it| it.path().to_ascii_lowercase()).unwrap_or_default();
    let text = content.as_str().unwrap_or_default().to_lowercase();
    if ADDRESSES.iter().any(|it| path.contains(it)) || TEXTS.iter().any(|it| text.contains(it)) {
        let message = "the search engine shows a captcha instead of results: set another \
                       one in OPENSKILL_BROWSER_SEARCH_URL, or open a page whose address is known";
        return Err(Problem::Captcha(message.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_is_one_value_of_the_address() {
        let found = address("https://a.example/search?q={query}&hl=en", "C++ & \"Rust\" #1").unwrap();
        let query: Vec<_> = found.query_pairs().collect();
        assert_eq!(query[0].1, "C++ & \"Rust\" #1");
        assert_eq!((query.len(), found.fragment()), (2, None));
    }

    #[test]
    fn a_captcha_is_no_page_of_results() {
        assert!(check("https://www.google.com/sorry/index?continue=x", &json!("")).is_err());
        assert!(check("https://a.example/s", &json!("Our systems have detected unusual traffic from...")).is_err());
        assert!(check("https://a.example/search?q=captcha", &json!("Ten results about captcha libraries")).is_ok());
    }
}
