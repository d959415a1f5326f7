//! Which file of a crate imports from which: enough of Rust's paths for a test, read as text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::text::{code, production};

/// A module that has a file of its own, by its path within the crate. The crate's root is empty.
pub(super) type Module = Vec<String>;

/// The name of the crate's root.
pub(super) const ROOT: &str = "the crate's root";

/// The imports of one crate: from each file to the files it imports from, with the path that does.
#[derive(Debug, Default)]
pub(super) struct Imports {
    edges: BTreeMap<Module, BTreeMap<Module, String>>,
}

/// The source of one file, without comments, literals and visibilities.
struct Source<'a> {
    module: &'a Module,
    text: String,
    /// Inline modules: where each begins and ends, and its name.
    inline: Vec<(usize, usize, String)>,
}

impl Imports {
    /// Reads all files below `src`. `sources` maps each module to its text.
    pub(super) fn of(sources: &BTreeMap<Module, String>) -> Self {
        let edges = sources.iter().map(|(module, text)| {
            let source = Source::new(module, text);
            (module.clone(), source.imports(sources))
        });
        Self { edges: edges.collect() }
    }

    /// The import circles: sets of files each of which imports, directly or not, from each other one.
    pub(super) fn circles(&self) -> Vec<BTreeSet<Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.edges.keys().map(|it| (it, self.reachable(it))).collect();
        let circle = |module: &Module| -> BTreeSet<Module> {
            let others = reach[module].iter().filter(|other| reach[*other].contains(module));
            others.map(|other| (*other).clone()).collect()
        };
        let all: BTreeSet<_> = self.edges.keys().filter(|it| reach[it].contains(it)).map(circle).collect();
        all.into_iter().collect()
    }

    /// The edges within a circle, one a line.
    pub(super) fn explain(&self, circle: &BTreeSet<Module>) -> String {
        let within = circle.iter().flat_map(|from| {
            let targets = self.edges[from].iter().filter(|(to, _)| circle.contains(*to));
            targets.map(move |(to, path)| format!("  {} -> {}: {path}\n", name(from), name(to)))
        });
        within.collect()
    }

    /// The files that some file imports from.
    pub(super) fn targets(&self, module: &str) -> BTreeSet<String> {
        let module: Module = module.split("::").map(str::to_owned).collect();
        self.edges.get(&module).into_iter().flatten().map(|(to, _)| name(to)).collect()
    }

    fn reachable<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            open.extend(self.edges.get(next).into_iter().flat_map(BTreeMap::keys).filter(|it| found.insert(*it)));
        }
        found
    }
}

/// The module of a file, from its path below `src`.
pub(super) fn module_of(path: &Path) -> Module {
    let parts: Module =
        path.with_extension("").components().map(|it| it.as_os_str().to_string_lossy().into_owned()).collect();
    if parts == ["lib"] || parts == ["main"] { Module::new() } else { parts }
}

fn name(module: &Module) -> String {
    if module.is_empty() { ROOT.to_owned() } else { module.join("::") }
}

impl<'a> Source<'a> {
    fn new(module: &'a Module, text: &str) -> Self {
        let text = without_visibilities(&production(&code(text)));
        let inline = inline_modules(&text);
        Self { module, text, inline }
    }

    fn imports(&self, files: &BTreeMap<Module, String>) -> BTreeMap<Module, String> {
        let mut found = BTreeMap::new();
        let mut names = BTreeMap::new();
        let mut rest = self.text.clone();
        for (begin, end) in statements(&self.text, "use ") {
            for path in expand(&self.text[begin + "use ".len()..end]) {
                if let Some(target) = self.resolve(begin, &path, &BTreeMap::new(), files) {
                    if let (Some(last), Some(of_module)) = (path.iter().rfind(|it| *it != "self"), target.last())
                        && last == of_module
                    {
                        names.insert(last.clone(), target.clone());
                    }
                    found.entry(target).or_insert_with(|| format!("use {}", path.join("::")));
                }
            }
            rest.replace_range(begin..end, &" ".repeat(end - begin));
        }
        for (begin, path) in inline_paths(&rest) {
            // The last segment is an item, which may have the name of a file.
            let (_, parents) = path.split_last().map_or((None, &[][..]), |(last, parents)| (Some(last), parents));
            if let Some(target) = self.resolve(begin, parents, &names, files) {
                found.entry(target).or_insert_with(|| path.join("::"));
            }
        }
        found.remove(self.module);
        found
    }

    /// The file that a path leads through; none if it leads out of the crate.
    fn resolve(
        &self,
        at: usize,
        path: &[String],
        names: &BTreeMap<String, Module>,
        files: &BTreeMap<Module, String>,
    ) -> Option<Module> {
        let path: Vec<&String> = path.iter().filter(|it| *it != "self").collect();
        let inline = self.inline.iter().filter(|(begin, end, _)| (*begin..*end).contains(&at));
        let mut base: Module = self.module.iter().cloned().chain(inline.map(|(_, _, name)| name.clone())).collect();
        let mut rest = &path[..];
        match path.first()?.as_str() {
            "crate" => (base, rest) = (Module::new(), &path[1..]),
            "super" => {
                while rest.first().is_some_and(|it| *it == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let child: Module = base.iter().cloned().chain([first.to_owned()]).collect();
                if !files.contains_key(&child) {
                    (base, rest) = (names.get(first)?.clone(), &path[1..]);
                }
            }
        }
        while !files.contains_key(&base) {
            base.pop()?;
        }
        for segment in rest {
            let next: Module = base.iter().cloned().chain([(*segment).clone()]).collect();
            if !files.contains_key(&next) {
                break;
            }
            base = next;
        }
        Some(base)
    }
}

/// Replaces `pub(in crate::x)` and the like: they name modules, and import nothing.
fn without_visibilities(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(begin) = text.find("pub(") {
        let end = text[begin..].find(')').map_or(text.len(), |end| begin + end + 1);
        text.replace_range(begin..end, &format!("pub{}", " ".repeat(end - begin - 3)));
    }
    text
}

fn inline_modules(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    for (begin, _) in text.match_indices("mod ") {
        let rest = &text[begin + 4..];
        let name: String = rest.chars().take_while(|it| is_word(*it)).collect();
        let body = rest[name.len()..].trim_start();
        if !name.is_empty() && body.starts_with('{') && is_start_of_word(text, begin) {
            let open = text.len() - body.len();
            found.push((open, closing_brace(text, open), name));
        }
    }
    found
}

fn closing_brace(text: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, it) in text[open..].char_indices() {
        match it {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at;
        }
    }
    text.len()
}

/// Where statements that begin with a keyword begin and end.
fn statements(text: &str, keyword: &str) -> Vec<(usize, usize)> {
    let begins = text.match_indices(keyword).map(|(at, _)| at).filter(|at| is_start_of_word(text, *at));
    begins.filter_map(|begin| Some((begin, begin + text[begin..].find(';')?))).collect()
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let segments = |text: &str| -> Vec<String> {
        let text = text.split(" as ").next().unwrap_or_default();
        text.split("::").map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
    };
    let Some(open) = tree.find('{') else { return vec![segments(tree)] };
    let (head, close) = (segments(&tree[..open]), closing_brace(tree, open));
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, open + 1);
    for (at, it) in tree[open + 1..close].char_indices().map(|(at, it)| (open + 1 + at, it)) {
        match it {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[begin..close]);
    let parts = parts.into_iter().filter(|it| !it.trim().is_empty()).flat_map(expand);
    parts.map(|tail| head.iter().cloned().chain(tail).collect()).collect()
}

/// Paths of at least two segments outside of `use`, with where each begins.
fn inline_paths(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let is_path = |it: char| is_word(it) || it == ':';
    let mut from = 0;
    while let Some(begin) = text[from..].find(|it: char| is_word(it)).map(|at| from + at) {
        let end = text[begin..].find(|it| !is_path(it)).map_or(text.len(), |length| begin + length);
        let path = text[begin..end].trim_end_matches(':');
        let is_whole = !text[..begin].ends_with("::");
        if is_whole && path.contains("::") && path.starts_with(|it: char| it.is_ascii_lowercase()) {
            found.push((begin, path.split("::").map(str::to_owned).collect()));
        }
        from = end;
    }
    found
}

fn is_word(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_'
}

fn is_start_of_word(text: &str, at: usize) -> bool {
    !text[..at].ends_with(is_word)
}
