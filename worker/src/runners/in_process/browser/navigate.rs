//! Loading pages: by address, back, in new tabs.

use std::time::{Duration, Instant};

use openskill_cdp::client::CallError;
use serde_json::{Value, json};
use url::Url;

use super::instance::{Browser, PROMPT};
use super::problem::Problem;
use super::relay::Why;
use super::tabs::Tab;
use super::wording::line;

/// How long a server may take to begin its answer.
const ANSWERS: Duration = Duration::from_secs(30);

/// How long a page may take to be complete, once its server answers. Then it is used as it is.
const COMPLETE: Duration = Duration::from_secs(15);

/// Other documents that may come before the one that was asked for.
const MOST_OTHERS: usize = 3;

/// The longest address.
const MAX_URL_BYTES: usize = 8192;

/// Reads an address.
///
/// # Errors
/// It is not an http:// or https:// address.
pub(super) fn address(written: &str) -> Result<Url, Problem> {
    let wrong = |reason: &str| Problem::Argument(format!("url: '{}' {reason}", line(written, 100)));
    if written.len() > MAX_URL_BYTES {
        return Err(wrong("is too long"));
    }
    let url = match Url::parse(written.trim()) {
        Ok(url) if !url.scheme().contains('.') && url.scheme() != "localhost" => url,
        // What has no scheme, or looks as if its host were one.
        _ => Url::parse(&format!("https://{}", written.trim())).map_err(|_| wrong("is not an address"))?,
    };
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "about" if url.path() == "blank" => Ok(url),
        scheme => Err(wrong(&format!("can't be opened: browsers open http:// and https:// addresses, not {scheme}:"))),
    }
}

/// Opens an address in a tab and waits until its page is there. Gives a note if it is not complete.
///
/// # Errors
/// It was not loaded: why. The page that is there overtook it.
pub(super) async fn open(browser: &Browser, tab: &Tab, url: &Url, most: Duration) -> Result<Option<String>, Problem> {
    let refused_before = browser.seen.refusals();
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
        // A download leaves the page where it is.
        let has_gone = browser.state.tabs().get(tab.id).is_some_and(|it| !it.loaders.is_empty());
        let is_aborted = error == "net::ERR_ABORTED";
        return if is_aborted && has_gone {
            Err(Problem::Overtaken)
        } else {
            not_loaded(browser, url, error, refused_before)
        };
    }
    let Some(loader) = opened["loaderId"].as_str().filter(|it| !it.is_empty()) else {
        // Another place of the same document.
        return Ok(None);
    };
    let left = until.saturating_duration_since(Instant::now()).min(COMPLETE);
    let left_page = place(&tab.url);
    let done = browser.state.wait(left, |tabs| {
        let Some(tab) = tabs.get(tab.id) else { return Some(Err(Problem::NoTab)) };
        match tab {
            _ if tab.has_crashed => Some(Err(Problem::Crashed)),
            _ if tab.loader == loader => (tab.is_parsed && !tab.is_busy).then_some(Ok(())),
            // Its scripts may have gone elsewhere at once. Or the page that was left comes back: it had begun to load again.
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

/// An address without what pages change in it while they stay.
fn place(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

fn host(url: &Url) -> String {
    line(url.host_str().unwrap_or_default(), 200)
}

fn not_loaded(browser: &Browser, url: &Url, error: &str, before: u64) -> Result<Option<String>, Problem> {
    // What is downloaded, or has no content, leaves the page where it is.
    if error == "net::ERR_ABORTED" {
        return Ok(Some("there is no page at this address: it was downloaded, or has no content".to_owned()));
    }
    let why = browser.seen.unmade_since(before, url.host_str().unwrap_or_default());
    let reason = match why.filter(|_| error.contains("SOCKS")) {
        Some(Why::Refused(reason)) => return Err(Problem::Refused(reason)),
        Some(Why::Failed(reason)) => reason,
        None => line(error.trim_start_matches("net::"), 100),
    };
    // An address without a scheme was taken for https.
    let hint = if error.contains("SSL_PROTOCOL") { "; for plain HTTP, begin the address with http://" } else { "" };
    Err(Problem::NotLoaded(format!("{} was not loaded: {reason}{hint}", host(url))))
}

/// Goes back in the history of a tab.
///
/// # Errors
/// There is nothing to go back to.
pub(super) async fn back(browser: &Browser, tab: &Tab) -> Result<(), Problem> {
    let history = browser.of_page(&tab.session, "Page.getNavigationHistory", json!({})).await?;
    let current = history["currentIndex"].as_u64().unwrap_or(0) as usize;
    let entry = current.checked_sub(1).and_then(|it| history["entries"].get(it));
    // The empty page that a tab begins with is nothing to go back to.
    let entry = entry.filter(|it| it["url"].as_str().is_some_and(|url| url != "about:blank"));
    let Some(id) = entry.and_then(|it| it["id"].as_i64()) else {
        return Err(Problem::Argument("there is no earlier page in this tab".to_owned()));
    };
    browser.state.tabs().expect_load(tab.id);
    browser.of_page(&tab.session, "Page.navigateToHistoryEntry", json!({"entryId": id})).await?;
    // Going to another place of the same document loads nothing.
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
/// There are as many as allowed, or the browser is late.
pub(super) async fn new_tab(browser: &Browser, most: usize) -> Result<Tab, Problem> {
    if browser.state.tabs().all().len() >= most {
        let message = format!("there are {most} tabs, as many as allowed: close one with browser_close_tab");
        return Err(Problem::Argument(message));
    }
    let made = browser.call("Target.createTarget", json!({"url": "about:blank"})).await?;
    let target = made["targetId"].as_str().unwrap_or_default().to_owned();
    let attached = browser.state.wait(PROMPT, |tabs| tabs.of_target(&target).cloned()).await;
    let tab = attached.ok_or_else(|| Problem::Exhausted("the browser opened no tab".to_owned()))?;
    browser.state.tabs().switch(tab.id);
    // Orders of its start are done when this is answered.
    browser.of_page(&tab.session, "Page.getFrameTree", json!({})).await?;
    Ok(tab)
}

/// Opens an empty tab in place of another one, which may be the last that is allowed, and closes that one.
///
/// # Errors
/// As [`new_tab`].
pub(super) async fn replace(browser: &Browser, tab: &Tab, most: usize) -> Result<Tab, Problem> {
    let opened = {
        // However this ends.
        let _replacing = Replacing::of(browser);
        new_tab(browser, most.saturating_add(1)).await?
    };
    browser.call("Target.closeTarget", json!({"targetId": tab.target})).await?;
    Ok(opened)
}

/// While this is there, a tab more may come.
struct Replacing<'a>(&'a Browser);

impl<'a> Replacing<'a> {
    fn of(browser: &'a Browser) -> Self {
        browser.state.tabs().replace(true);
        Self(browser)
    }
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        self.0.state.tabs().replace(false);
    }
}

/// Shows a tab, so that it is the one that gets keys.
///
/// # Errors
/// There is no such tab.
pub(super) async fn switch(browser: &Browser, id: u64) -> Result<(), Problem> {
    let tab = existing(browser, id)?;
    browser.state.tabs().switch(id);
    let _: Value = browser.call("Target.activateTarget", json!({"targetId": tab.target})).await?;
    Ok(())
}

/// Closes a tab. The last one is replaced by an empty one.
///
/// # Errors
/// There is no such tab.
pub(super) async fn close(browser: &Browser, id: u64, most: usize) -> Result<(), Problem> {
    let tab = existing(browser, id)?;
    let is_last = browser.state.tabs().all().len() == 1;
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
        let ids: Vec<String> = tabs.all().iter().map(|it| it.id.to_string()).collect();
        Problem::Argument(format!("page_id: there is no tab {id}; the tabs are {}", ids.join(", ")))
    })
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
}
