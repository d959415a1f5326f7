//! Loads pages: by address, from the tab's history, in new tabs, and from a search engine.

use std::time::{Duration, Instant};

use crate::browser::cdp::client::CallError;
use serde_json::{Value, json};
use url::Url;

use super::instance::{Browser, PROMPT};
use super::problem::Problem;
use super::relay::LoadFailure;
use super::tabs::Tab;
use super::wording::line;
use crate::config::browser::QUERY;

/// The time limit for a server to begin its response.
const ANSWERS: Duration = Duration::from_secs(30);

/// The time limit for a page to load completely after its server has responded. A page that takes longer is used
/// as far as it has loaded.
const COMPLETE: Duration = Duration::from_secs(15);

/// The maximum number of other documents that may load before the requested one.
const MOST_OTHERS: usize = 3;

/// The maximum length of an address, in bytes.
const MAX_URL_BYTES: usize = 8192;

/// Parses an address. Assumes `https://` if the scheme is missing.
///
/// # Errors
/// The text is not an http:// or https:// address.
pub(super) fn address(written: &str) -> Result<Url, Problem> {
    let wrong = |reason: &str| Problem::Argument(format!("url: '{}' {reason}", line(written, 100)));
    if written.len() > MAX_URL_BYTES {
        return Err(wrong("is too long"));
    }
    let url = match Url::parse(written.trim()) {
        Ok(url) if !url.scheme().contains('.') && url.scheme() != "localhost" => url,
        // The scheme is missing, or the host looks like a scheme.
        _ => Url::parse(&format!("https://{}", written.trim())).map_err(|_| wrong("is not an address"))?,
    };
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "about" if url.path() == "blank" => Ok(url),
        scheme => Err(wrong(&format!("can't be opened: browsers open http:// and https:// addresses, not {scheme}:"))),
    }
}

/// Opens an address in a tab and waits for its page. Returns a note if the page has not loaded completely.
///
/// # Errors
/// The page was not loaded, or the current page loaded another one instead.
pub(super) async fn open(browser: &Browser, tab: &Tab, url: &Url, most: Duration) -> Result<Option<String>, Problem> {
    let refused_before = browser.relay_log.refusals();
    let params = json!({"url": url.as_str()});
    browser.state.tabs().expect_load(tab.id);
    let (until, session) = (Instant::now() + most, Some(tab.session.as_str()));
    let opened = match browser.client.call(session, "Page.navigate", &params, ANSWERS.min(most)).await {
        Ok(opened) => opened,
        Err(CallError::Late(time)) => {
            let _ = browser.client.call(session, "Page.stopLoading", &json!({}), PROMPT).await;
            let message = format!("{} did not answer within {} s", host(url), time.as_secs());
            return Err(Problem::NotLoaded(message));
        }
        Err(CallError::Refused(refused)) => {
            return Err(Problem::NotLoaded(format!("the browser can't open it: {}", line(&refused.message, 200))));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(error) = opened["errorText"].as_str().filter(|it| !it.is_empty()) {
        // A download leaves the current page in place.
        let has_gone = browser.state.tabs().get(tab.id).is_some_and(|it| !it.loaders.is_empty());
        let is_aborted = error == "net::ERR_ABORTED";
        return if is_aborted && has_gone {
            Err(Problem::Overtaken)
        } else {
            not_loaded(browser, url, error, refused_before)
        };
    }
    let Some(loader) = opened["loaderId"].as_str().filter(|it| !it.is_empty()) else {
        // The address refers to another position in the same document.
        return Ok(None);
    };
    let left = until.saturating_duration_since(Instant::now()).min(COMPLETE);
    let left_page = place(&tab.url);
    let done = browser.state.wait(left, |tabs| {
        let Some(tab) = tabs.get(tab.id) else { return Some(Err(Problem::NoTab)) };
        match tab {
            _ if tab.has_crashed => Some(Err(Problem::Crashed)),
            _ if tab.loader == loader => (tab.is_parsed && !tab.is_busy).then_some(Ok(())),
            // The page's scripts may have loaded another page immediately. Or the previous page has returned,
            // because it was already reloading.
            _ if !tab.is_busy && tab.loaders.iter().any(|it| it == loader) => {
                Some(if place(&tab.url) == left_page { Err(Problem::Overtaken) } else { Ok(()) })
            }
            _ if tab.loaders.len() > MOST_OTHERS => Some(Err(Problem::Overtaken)),
            _ => None,
        }
    });
    match done.await {
        Some(Ok(())) => Ok(None),
        Some(Err(problem)) => Err(problem),
        None => Ok(Some("the page is not complete yet".to_owned())),
    }
}

/// Returns an address without its query and fragment, which pages change without loading.
fn place(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

fn host(url: &Url) -> String {
    line(url.host_str().unwrap_or_default(), 200)
}

fn not_loaded(browser: &Browser, url: &Url, error: &str, before: u64) -> Result<Option<String>, Problem> {
    // Downloads and responses without content leave the current page in place.
    if error == "net::ERR_ABORTED" {
        return Ok(Some("this address has no page to show: it was downloaded, or has no content".to_owned()));
    }
    let failure = browser.relay_log.failure_since(before, url.host_str().unwrap_or_default());
    let reason = match failure.filter(|_| error.contains("SOCKS")) {
        Some(LoadFailure::Refused(reason)) => return Err(Problem::Refused(reason)),
        Some(LoadFailure::Failed(reason)) => reason,
        None => line(error.trim_start_matches("net::"), 100),
    };
    // Addresses without a scheme default to https.
    let hint = if error.contains("SSL_PROTOCOL") { "; for plain HTTP, begin the address with http://" } else { "" };
    Err(Problem::NotLoaded(format!("{} was not loaded: {reason}{hint}", host(url))))
}

/// Goes back one page in the history of a tab.
///
/// # Errors
/// The history has no earlier page.
pub(super) async fn back(browser: &Browser, tab: &Tab) -> Result<(), Problem> {
    let history = browser.call_page(&tab.session, "Page.getNavigationHistory", json!({})).await?;
    let current = history["currentIndex"].as_u64().unwrap_or(0) as usize;
    let entry = current.checked_sub(1).and_then(|it| history["entries"].get(it));
    // The empty page that a new tab starts with does not count.
    let entry = entry.filter(|it| it["url"].as_str().is_some_and(|url| url != "about:blank"));
    let Some(id) = entry.and_then(|it| it["id"].as_i64()) else {
        return Err(Problem::Argument("there is no earlier page in this tab".to_owned()));
    };
    browser.state.tabs().expect_load(tab.id);
    browser.call_page(&tab.session, "Page.navigateToHistoryEntry", json!({"entryId": id})).await?;
    // Going back to another position in the same document loads nothing.
    let went = browser.state.wait(COMPLETE, |tabs| {
        let now = tabs.get(tab.id)?;
        let elsewhere = now.loader != tab.loader && !now.is_busy;
        (elsewhere || now.url != tab.url && now.loader == tab.loader).then_some(())
    });
    went.await;
    Ok(())
}

/// Opens an empty tab and makes it the current one.
///
/// # Errors
/// The tab limit is reached, or the browser does not answer in time.
pub(super) async fn new_tab(browser: &Browser, most: usize) -> Result<Tab, Problem> {
    if browser.state.tabs().all.len() >= most {
        let message = format!("there are {most} tabs, which is the maximum: close one with browser_close_tab");
        return Err(Problem::Argument(message));
    }
    let made = browser.call("Target.createTarget", json!({"url": "about:blank"})).await?;
    let target = made["targetId"].as_str().unwrap_or_default().to_owned();
    let attached = browser.state.wait(PROMPT, |tabs| tabs.with_target(&target).cloned()).await;
    let tab = attached.ok_or_else(|| Problem::Exhausted("the browser did not open a tab".to_owned()))?;
    browser.state.tabs().switch(tab.id);
    // This answer arrives after the initial commands are done.
    browser.call_page(&tab.session, "Page.getFrameTree", json!({})).await?;
    Ok(tab)
}

/// Opens an empty tab in place of another one, and closes the other one. May briefly exceed the tab limit.
///
/// # Errors
/// The same as for [`new_tab`].
pub(super) async fn replace(browser: &Browser, tab: &Tab, most: usize) -> Result<Tab, Problem> {
    let opened = {
        // Resets the exception on every return path.
        let _replacing = Replacing::begin(browser);
        new_tab(browser, most.saturating_add(1)).await?
    };
    browser.call("Target.closeTarget", json!({"targetId": tab.target})).await?;
    Ok(opened)
}

/// While this guard exists, one additional tab is allowed.
struct Replacing<'a>(&'a Browser);

impl<'a> Replacing<'a> {
    fn begin(browser: &'a Browser) -> Self {
        browser.state.tabs().replaces = true;
        Self(browser)
    }
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        self.0.state.tabs().replaces = false;
    }
}

/// Makes a tab the current one, so that it receives keyboard input.
///
/// # Errors
/// No tab has this id.
pub(super) async fn switch(browser: &Browser, id: u64) -> Result<(), Problem> {
    let tab = existing(browser, id)?;
    browser.state.tabs().switch(id);
    let _: Value = browser.call("Target.activateTarget", json!({"targetId": tab.target})).await?;
    Ok(())
}

/// Closes a tab. Replaces the last tab with an empty one.
///
/// # Errors
/// No tab has this id.
pub(super) async fn close(browser: &Browser, id: u64, most: usize) -> Result<(), Problem> {
    let tab = existing(browser, id)?;
    let is_last = browser.state.tabs().all.len() == 1;
    if is_last {
        replace(browser, &tab, most).await?;
    } else {
        browser.call("Target.closeTarget", json!({"targetId": tab.target})).await?;
    }
    let gone = browser.state.wait(PROMPT, |tabs| tabs.get(id).is_none().then_some(())).await;
    gone.ok_or(Problem::Stuck(PROMPT))
}

fn existing(browser: &Browser, id: u64) -> Result<Tab, Problem> {
    let tabs = browser.state.tabs();
    tabs.get(id).cloned().ok_or_else(|| {
        let ids: Vec<String> = tabs.all.iter().map(|it| it.id.to_string()).collect();
        Problem::Argument(format!("page_id: there is no tab {id}; the tabs are {}", ids.join(", ")))
    })
}

/// Signs of a captcha page in its address, and in its text.
const CAPTCHA_ADDRESSES: [&str; 4] = ["/sorry/", "/showcaptcha", "captcha", "/challenge"];
const CAPTCHA_TEXTS: [&str; 6] = [
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
pub(super) fn search_address(template: &str, query: &str) -> Result<Url, Problem> {
    let encoded: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    Url::parse(&template.replace(QUERY, &encoded))
        .map_err(|_| Problem::Argument("OPENSKILL_BROWSER_SEARCH_URL is not an address".to_owned()))
}

/// Checks that the engine shows results instead of a captcha.
///
/// # Errors
/// It shows a captcha.
pub(super) fn check_results(url: &str, content: &Value) -> Result<(), Problem> {
    let path = Url::parse(url).map(|it| it.path().to_ascii_lowercase()).unwrap_or_default();
    let text = content.as_str().unwrap_or_default().to_lowercase();
    if CAPTCHA_ADDRESSES.iter().any(|it| path.contains(it)) || CAPTCHA_TEXTS.iter().any(|it| text.contains(it)) {
        let message = "the search engine shows a captcha instead of results: set another \
                       one in OPENSKILL_BROWSER_SEARCH_URL, or open a page whose address is known";
        return Err(Problem::Captcha(message.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_web_are_opened_and_no_others() {
        for (written, opened) in [
            ("https://a.example/x?y#z", "https://a.example/x?y#z"),
            (" http://127.0.0.1:80/ ", "http://127.0.0.1/"),
            ("a.example", "https://a.example/"),
            ("a.example:8080/x", "https://a.example:8080/x"),
            ("about:blank", "about:blank"),
        ] {
            assert_eq!(address(written).unwrap().as_str(), opened, "{written}");
        }
        for written in [
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "chrome://version",
            "chrome:version",
            "devtools://devtools/bundled/inspector.html",
            "view-source:https://a.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "about:version",
            "blob:https://a.example/1",
            "ftp://a.example/",
            "",
        ] {
            assert!(matches!(address(written), Err(Problem::Argument(_))), "{written}");
        }
    }

    #[test]
    fn a_query_is_one_value_of_the_address() {
        let found = search_address("https://a.example/search?q={query}&hl=en", "C++ & \"Rust\" #1").unwrap();
        let query: Vec<_> = found.query_pairs().collect();
        assert_eq!(query[0].1, "C++ & \"Rust\" #1");
        assert_eq!((query.len(), found.fragment()), (2, None));
    }

    #[test]
    fn a_captcha_is_no_page_of_results() {
        assert!(check_results("https://www.google.com/sorry/index?continue=x", &json!("")).is_err());
        assert!(
            check_results("https://a.example/s", &json!("Our systems have detected unusual traffic from...")).is_err()
        );
        assert!(
            check_results("https://a.example/search?q=captcha", &json!("Ten results about captcha libraries")).is_ok()
        );
    }
}
