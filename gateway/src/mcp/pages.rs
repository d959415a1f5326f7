//! Lists of tools, cached for each policy and view until the catalog changes: clients list their tools repeatedly.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::views::View;
use crate::call::principal::Principal;

/// The maximum number of cached lists. Principals with the same policy share one per view.
const MAX_LISTS: usize = 64;

/// The maximum size of a page, in bytes, unless a single tool is larger. Large, because many clients never read a
/// second page.
const PAGE_BYTES: usize = 1024 * 1024;

/// All tools that a policy allows, as JSON.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// The definitions, separated by commas.
    text: Bytes,
    /// Each tool's name, with the end of its definition in `text`.
    tools: Vec<(String, usize)>,
}

/// A part of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListPage<'a> {
    /// Definitions, separated by commas.
    pub(crate) tools: &'a [u8],
    /// The name of the last tool. None if it is the last one of the list.
    pub(crate) last: Option<&'a str>,
}

impl List {
    /// Creates a list. `tools` are names with definitions, sorted by name.
    pub(crate) fn new(tools: impl IntoIterator<Item = (String, String)>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (name, definition) in tools {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&definition);
            ends.push((name, text.len()));
        }
        Self { text: text.into(), tools: ends }
    }

    /// Returns the page after the tool with this name, or the first page. The name of a removed tool still marks
    /// its position.
    pub(crate) fn page(&self, after: Option<&str>) -> ListPage<'_> {
        let first = after.map_or(0, |after| self.tools.partition_point(|(name, _)| name.as_str() <= after));
        let begin = first.checked_sub(1).and_then(|it| self.tools.get(it)).map_or(0, |(_, end)| end + 1);
        let rest = self.tools.get(first..).unwrap_or_default();
        let fitting = rest.partition_point(|(_, end)| end - begin.min(*end) <= PAGE_BYTES).max(1);
        let Some((last, end)) = rest.get(fitting.min(rest.len()).wrapping_sub(1)) else {
            return ListPage { tools: &[], last: None };
        };
        let tools = self.text.get(begin..*end).unwrap_or_default();
        ListPage { tools, last: (fitting < rest.len()).then_some(last.as_str()) }
    }
}

/// The cached lists of all policies.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<VecDeque<CachedList>>);

/// A list with its cache key.
#[derive(Debug)]
struct CachedList {
    principal: Principal,
    view: Arc<View>,
    /// The catalog change that the list was written for.
    change: u64,
    list: Arc<List>,
}

impl Pages {
    /// Returns the list of `principal` in `view` at this change of the catalog: from the cache, or created by
    /// `write`. An unchanged list stays the same object.
    pub(crate) fn get(
        &self,
        principal: &Principal,
        view: &Arc<View>,
        change: u64,
        write: impl FnOnce() -> List,
    ) -> Arc<List> {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|it| Arc::ptr_eq(&it.view, view) && it.principal.sees_like(principal));
        if let Some(it) = place.and_then(|place| kept.get(place))
            && it.change == change
        {
            return Arc::clone(&it.list);
        }
        let older = place.and_then(|place| kept.remove(place));
        let written = write();
        let list = match older {
            Some(it) if *it.list == written => it.list,
            _ => Arc::new(written),
        };
        kept.truncate(MAX_LISTS - 1);
        let (principal, view) = (principal.clone(), Arc::clone(view));
        kept.push_front(CachedList { principal, view, change, list: Arc::clone(&list) });
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str], bytes: usize) -> List {
        List::new(names.iter().map(|name| ((*name).to_owned(), format!("\"{name}{}\"", "x".repeat(bytes)))))
    }

    fn all(list: &List) -> Vec<String> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = list.page(after);
            pages.push(String::from_utf8(page.tools.to_vec()).unwrap());
            match page.last {
                Some(last) => after = Some(last),
                None => return pages,
            }
        }
    }

    #[test]
    fn a_list_is_one_page_unless_it_is_very_long() {
        assert_eq!(all(&list(&["a", "b"], 0)), ["\"a\",\"b\""]);
        assert_eq!(all(&list(&[], 0)), [""]);
        let names: Vec<_> = (0..100).map(|it| format!("tool-{it:03}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let long = list(&names, 30_000);
        let pages = all(&long);
        assert!(pages.len() == 3 && pages.iter().all(|it| it.len() <= PAGE_BYTES), "{}", pages.len());
        assert_eq!(pages.join(",").as_bytes(), &long.text);
        let huge = all(&list(&["a", "b"], 2 * PAGE_BYTES));
        assert_eq!(huge.len(), 2);
    }

    #[test]
    fn a_tool_that_is_gone_marks_its_place_all_the_same() {
        let list = list(&["a", "c"], 0);
        assert_eq!(list.page(Some("b")).tools, b"\"c\"");
        assert_eq!(list.page(Some("c")), ListPage { tools: &[], last: None });
    }

    #[test]
    fn a_list_is_written_once_per_change_and_stays_itself_if_nothing_changed() {
        let (pages, nobody) = (Pages::default(), Principal::anonymous());
        let (view, other) = (Arc::new(View::default()), Arc::new(View::default()));
        let first = pages.get(&nobody, &view, 1, || list(&["a"], 0));
        let of_other = pages.get(&nobody, &other, 1, || list(&["c"], 0));
        assert_eq!(of_other.page(None).tools, b"\"c\"");
        let kept = pages.get(&nobody, &view, 1, || unreachable!("it is kept"));
        let same = pages.get(&nobody, &view, 2, || list(&["a"], 0));
        let changed = pages.get(&nobody, &view, 3, || list(&["a", "b"], 0));
        assert!(Arc::ptr_eq(&first, &kept) && Arc::ptr_eq(&first, &same) && !Arc::ptr_eq(&first, &changed));
    }
}
