//! Parses `robots.txt` (RFC 9309).

use std::time::Duration;

use openskill_text::glob;

/// This crawler's name in the rules.
const OUR_NAME: &str = "openskill";

/// The maximum number of rules, and the maximum length of a rule.
const MAX_RULES: usize = 2000;
const MAX_PATTERN_BYTES: usize = 1000;

/// The maximum delay between two pages that a site may request.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// The rules of a site.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Robots {
    /// Path patterns, each with whether it allows access.
    rules: Vec<(String, bool)>,
    /// The delay between two pages.
    pub(super) delay: Option<Duration>,
    pub(super) sitemaps: Vec<String>,
}

/// Whom rules are for, the most specific last.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Group {
    Other,
    All,
    Own,
}

impl Robots {
    /// Returns rules that allow nothing, for a site whose file can't be fetched.
    pub(super) fn nothing() -> Self {
        Self { rules: vec![("/".to_owned(), false)], ..Self::default() }
    }

    /// Parses a file. Uses the group for this crawler, or otherwise the group for all crawlers.
    pub(super) fn parse(text: &str) -> Self {
        let (mut own, mut all, mut sitemaps) = (Self::default(), Self::default(), Vec::new());
        let (mut group, mut is_naming, mut has_own) = (Group::Other, false, false);
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            if key == "user-agent" {
                let named = match value.split('/').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
                    OUR_NAME => Group::Own,
                    "*" => Group::All,
                    _ => Group::Other,
                };
                // Consecutive user agent lines share the rules that follow.
                group = if is_naming { group.max(named) } else { named };
                has_own |= named == Group::Own;
                is_naming = true;
                continue;
            }
            if key == "sitemap" {
                if sitemaps.len() < 20 {
                    sitemaps.push(value.to_owned());
                }
                continue;
            }
            is_naming = false;
            let rules = match group {
                Group::Own => &mut own,
                Group::All => &mut all,
                Group::Other => continue,
            };
            rules.take(&key, value);
        }
        Self { sitemaps, ..if has_own { own } else { all } }
    }

    fn take(&mut self, key: &str, value: &str) {
        match key {
            "allow" | "disallow" if value.is_empty() => {}
            "allow" | "disallow" if self.rules.len() < MAX_RULES && value.len() <= MAX_PATTERN_BYTES => {
                self.rules.push((value.to_owned(), key == "allow"));
            }
            "crawl-delay" => {
                let seconds = value.parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
                self.delay = seconds.map(|it| Duration::from_secs_f64(it.min(MAX_DELAY.as_secs_f64())));
            }
            _ => {}
        }
    }

    /// Returns whether a path with its query may be read. The longest matching rule decides. If an allowing and a
    /// disallowing rule are equally long, the path is allowed.
    pub(super) fn allows(&self, path: &str) -> bool {
        let matching = self.rules.iter().filter(|(pattern, _)| matches(pattern, path));
        matching.max_by_key(|(pattern, allows)| (pattern.len(), *allows)).is_none_or(|(_, allows)| *allows)
    }
}

/// Matches a path against a pattern. `*` matches any text, and a final `$` matches the end.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('$') {
        Some(pattern) => glob::matches(pattern, path, true),
        None => glob::matches(pattern, path, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_decides() {
        let robots = Robots::parse(
            "User-agent: *\nDisallow: /private\nAllow: /private/open # yes\nDisallow: /*.pdf$\nCrawl-delay: 0.5\n\
             Sitemap: http://a.example/map.xml\n\nUser-agent: other\nDisallow: /",
        );
        for (path, allowed) in
            [("/", true), ("/private/x", false), ("/private/open/x", true), ("/a.pdf", false), ("/a.pdf?x", true)]
        {
            assert_eq!(robots.allows(path), allowed, "{path}");
        }
        assert_eq!(robots.delay, Some(Duration::from_millis(500)));
        assert_eq!(robots.sitemaps, ["http://a.example/map.xml"]);
    }

    #[test]
    fn rules_for_us_replace_those_for_all() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: someone\nUser-agent: OpenSkill/1.0\nDisallow: /x\n";
        let robots = Robots::parse(text);
        assert!(robots.allows("/") && !robots.allows("/x/y"));
        assert!(!Robots::nothing().allows("/"));
        assert!(Robots::parse("User-agent: *\nDisallow:\n").allows("/x"));
    }
}
