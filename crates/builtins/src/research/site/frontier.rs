//! Decides which pages of a site to read next.

use std::collections::{HashSet, VecDeque};

use url::{Origin, Url};

/// The maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 1024;

/// The maximum number of queued URLs for each page that may be read.
const WAITING: usize = 20;

/// A queue of URLs without duplicates.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    waiting: VecDeque<Url>,
    seen: HashSet<String>,
    most: usize,
}

impl Frontier {
    /// Creates a queue for reading this many pages.
    pub(super) fn new(pages: usize) -> Self {
        Self { most: pages.saturating_mul(WAITING), ..Self::default() }
    }

    /// Adds a URL, unless its origin is not in `origins` or it was seen before.
    pub(super) fn add(&mut self, mut url: Url, origins: &[Origin]) {
        url.set_fragment(None);
        let is_plain = url.set_username("").is_ok() && url.set_password(None).is_ok();
        let is_fit = is_plain && url.as_str().len() <= MAX_URL_BYTES && origins.contains(&url.origin());
        if is_fit && self.seen.len() < self.most && is_page(url.path()) && self.seen.insert(url.as_str().to_owned()) {
            self.waiting.push_back(url);
        }
    }

    /// Marks a redirect target as read. Returns `false` if it was already read.
    pub(super) fn mark(&mut self, url: &Url) -> bool {
        self.seen.insert(url.as_str().to_owned())
    }

    pub(super) fn next(&mut self) -> Option<Url> {
        self.waiting.pop_front()
    }

    /// Puts back a URL that was taken but not read.
    pub(super) fn put_back(&mut self, url: Url) {
        self.waiting.push_front(url);
    }
}

/// Returns whether a path's extension suggests a page with text.
fn is_page(path: &str) -> bool {
    const OTHERS: [&str; 28] = [
        "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "js", "mjs", "json", "xml", "zip", "gz", "tgz",
        "bz2", "xz", "7z", "tar", "exe", "dmg", "mp3", "mp4", "webm", "woff", "woff2", "ttf", "iso",
    ];
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_none_or(|(_, ending)| !OTHERS.contains(&ending.to_ascii_lowercase().as_str()))
}

/// Parses a sitemap. Returns its URLs, and whether they are sitemaps themselves.
pub(super) fn sitemap(text: &str) -> (Vec<Url>, bool) {
    let locations = text.split("<loc>").skip(1).filter_map(|it| it.split("</loc>").next());
    let urls = locations.take(50_000).filter_map(|it| Url::parse(it.trim().replace("&amp;", "&").as_str()).ok());
    (urls.collect(), text.contains("<sitemapindex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_of_the_site_is_read_once() {
        let url = |text: &str| Url::parse(text).unwrap();
        let origins = [url("http://a.example/").origin()];
        let mut frontier = Frontier::new(1);
        for text in [
            "http://a.example/x#1",
            "http://a.example/x#2",
            "http://b.example/",
            "https://a.example/",
            "http://a.example/y.png",
            "http://me:pw@a.example/z",
        ] {
            frontier.add(url(text), &origins);
        }
        assert_eq!(frontier.next().unwrap().as_str(), "http://a.example/x");
        assert_eq!(frontier.next().unwrap().as_str(), "http://a.example/z");
        assert!(frontier.next().is_none());
        for number in 0..100 {
            frontier.add(url(&format!("http://a.example/{number}")), &origins);
        }
        assert_eq!(frontier.waiting.len(), WAITING - 2);
    }

    #[test]
    fn a_sitemap_is_read() {
        let (urls, is_index) = sitemap("<urlset><url><loc> http://a.example/?a=1&amp;b=2 </loc></url></urlset>");
        assert_eq!((urls[0].as_str(), is_index), ("http://a.example/?a=1&b=2", false));
    }
}
