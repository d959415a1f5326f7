//! Completes the text of arguments with defaults. What was sent stays as it was, byte for byte.

use std::borrow::Cow;

use openskill_proto::json::end_of_string;
use openskill_proto::limits::MAX_JSON_DEPTH;
use serde_json::Value;

use super::places::{DeclaredProperty, Defaults, SchemaPlace};
use crate::schema::join;

/// The maximum size of all defaults of one call, with their paths, in bytes. A call that needs more gets none.
pub const MAX_GROWTH_BYTES: usize = 256 * 1024;

/// The maximum size of the defaults inside one default, in bytes.
const MAX_INNER_GROWTH_BYTES: usize = 16 * 1024;

/// The maximum number of defaults that are tried one by one if they are not valid together.
const MAX_TRIALS: usize = 32;

/// The maximum size of the arguments that are validated for these trials, in bytes.
const MAX_TRIAL_BYTES: usize = 1024 * 1024;

/// Arguments that were completed with defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The arguments as JSON text.
    pub text: String,
    /// The parameters that were filled in, as JSON pointers.
    pub paths: Vec<String>,
}

/// The defaults of a call are larger than [`MAX_GROWTH_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowthExceeded;

impl Defaults {
    /// Completes arguments, which must be valid JSON. None if nothing is missing. `accepts` tells whether arguments
    /// match the schema. A default that contradicts what was sent is left out, and so are defaults that contradict
    /// each other.
    ///
    /// # Errors
    /// The defaults are too large. The call gets none of them.
    pub fn fill(&self, text: &str, mut accepts: impl FnMut(&str) -> bool) -> Result<Option<Filled>, GrowthExceeded> {
        let Some(all) = self.fill_some(text, |_| true)? else { return Ok(None) };
        if accepts(&all.text) {
            return Ok(Some(all));
        }
        if all.paths.len() > MAX_TRIALS || all.paths.len() * all.text.len() > MAX_TRIAL_BYTES {
            return Ok(None);
        }
        let mut fits = Vec::with_capacity(all.paths.len());
        for number in 0..all.paths.len() {
            let alone = self.fill_some(text, |it| it == number)?;
            fits.push(alone.is_some_and(|it| accepts(&it.text)));
        }
        let some = self.fill_some(text, |it| fits[it])?;
        Ok(some.filter(|some| accepts(&some.text)))
    }

    /// Completes arguments with the defaults that `keeps` accepts by their number. None if there are none.
    pub(super) fn fill_some(
        &self,
        text: &str,
        keeps: impl Fn(usize) -> bool,
    ) -> Result<Option<Filled>, GrowthExceeded> {
        let mut filler = Filler::new(self, MAX_GROWTH_BYTES, &keeps);
        filler.complete(text, Some(0));
        match filler.is_exceeded {
            true => Err(GrowthExceeded),
            false if filler.paths.is_empty() => Ok(None),
            false => Ok(Some(Filled { text: filler.out, paths: filler.paths })),
        }
    }

    /// Whether a default for this place grows beyond a limit when it is completed with the defaults inside of it.
    pub(super) fn grows_endlessly(&self, default: &str, place: Option<usize>) -> bool {
        let mut filler = Filler::new(self, MAX_INNER_GROWTH_BYTES, &|_| true);
        filler.complete(default, place);
        filler.is_exceeded
    }

    fn place(&self, place: Option<usize>) -> Option<&SchemaPlace> {
        self.places.get(place?).filter(|it| it.leads_to_default)
    }
}

/// The text that is being completed: the arguments, or a default in them.
struct JsonSource<'t> {
    text: &'t str,
    at: usize,
    /// The end of what is written already.
    written: usize,
}

struct Filler<'p> {
    defaults: &'p Defaults,
    keeps: &'p dyn Fn(usize) -> bool,
    out: String,
    /// The path of the value that is read.
    path: String,
    paths: Vec<String>,
    /// The number of defaults so far, with those that were not kept.
    count: usize,
    /// How many defaults the current text is inside of.
    depth: usize,
    growth: usize,
    max_growth: usize,
    is_exceeded: bool,
}

impl<'p> Filler<'p> {
    fn new(defaults: &'p Defaults, max_growth: usize, keeps: &'p dyn Fn(usize) -> bool) -> Self {
        let (out, path, paths) = Default::default();
        Self { defaults, keeps, out, path, paths, count: 0, depth: 0, growth: 0, max_growth, is_exceeded: false }
    }

    /// Writes a text with its defaults. Writes nothing if the arguments are complete.
    fn complete(&mut self, text: &str, place: Option<usize>) {
        let mut source = JsonSource { text, at: 0, written: 0 };
        self.value(&mut source, place);
        if source.written > 0 || self.depth > 0 {
            self.out.push_str(&text[source.written..]);
        }
    }

    fn value(&mut self, source: &mut JsonSource<'_>, place: Option<usize>) {
        source.skip_separators();
        match (source.peek(), self.defaults.place(place)) {
            (Some(b'{'), Some(place)) => self.object(source, place),
            (Some(b'['), Some(SchemaPlace { items: Some(items), .. })) => self.array(source, *items),
            _ => source.skip_value(),
        }
    }

    fn array(&mut self, source: &mut JsonSource<'_>, items: usize) {
        source.at += 1;
        for index in 0_usize.. {
            source.skip_separators();
            if self.is_exceeded || matches!(source.peek(), Some(b']') | None) {
                break;
            }
            let outer = self.path.len();
            self.path.push_str(&format!("/{index}"));
            self.value(source, Some(items));
            self.path.truncate(outer);
        }
        source.at += 1;
    }

    fn object(&mut self, source: &mut JsonSource<'_>, place: &SchemaPlace) {
        source.at += 1;
        let (mut end, mut is_empty) = (source.at, true);
        let mut sent = SentProperties::new(place.properties.len());
        loop {
            source.skip_separators();
            let Some(key) = source.key() else { break };
            let inner = match place.by_name.get(&*key) {
                Some(index) => {
                    sent.insert(*index);
                    place.properties[*index].place
                }
                None => place.others,
            };
            let outer = self.path.len();
            if self.defaults.place(inner).is_some() {
                self.path = join(&self.path, &key);
            }
            self.value(source, inner);
            self.path.truncate(outer);
            if self.is_exceeded {
                return;
            }
            (end, is_empty) = (source.at, false);
        }
        let missing = place.properties.iter().enumerate().filter(|(index, _)| !sent.contains(*index));
        for (property, default) in missing.filter_map(|(_, it)| Some((it, it.default.as_deref()?))) {
            if self.admits(property, default) {
                self.out.push_str(&source.text[source.written..end]);
                source.written = end;
                let comma = if is_empty { "" } else { "," };
                self.out.push_str(&format!("{comma}{}:", Value::from(property.name.as_str())));
                is_empty = false;
                self.depth += 1;
                self.complete(default, property.place);
                self.depth -= 1;
            }
        }
        source.at += 1;
    }

    /// Whether to fill in a default. Counts it.
    fn admits(&mut self, property: &DeclaredProperty, default: &str) -> bool {
        if self.is_exceeded {
            return false;
        }
        if self.depth == 0 {
            self.count += 1;
            if !(self.keeps)(self.count - 1) {
                return false;
            }
        }
        let path = (self.depth == 0).then(|| join(&self.path, &property.name));
        self.growth += property.name.len() + default.len() + path.as_ref().map_or(0, String::len);
        self.is_exceeded = self.growth > self.max_growth || self.depth > MAX_JSON_DEPTH;
        if !self.is_exceeded {
            self.paths.extend(path);
        }
        !self.is_exceeded
    }
}

/// The declared properties that an object has. Most schemas declare at most 64, which need no allocation.
struct SentProperties {
    first: u64,
    rest: Vec<bool>,
}

impl SentProperties {
    fn new(declared: usize) -> Self {
        Self { first: 0, rest: vec![false; declared.saturating_sub(64)] }
    }

    fn insert(&mut self, index: usize) {
        match index {
            0..64 => self.first |= 1 << index,
            _ => self.rest[index - 64] = true,
        }
    }

    fn contains(&self, index: usize) -> bool {
        match index {
            0..64 => self.first & (1 << index) != 0,
            _ => self.rest[index - 64],
        }
    }
}

impl<'t> JsonSource<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, commas and colons.
    fn skip_separators(&mut self) {
        self.skip_while(|it| matches!(it, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':'));
    }

    fn skip_while(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    /// Reads a key. None at the end of the object.
    fn key(&mut self) -> Option<Cow<'t, str>> {
        let begin = self.at;
        if self.peek() != Some(b'"') {
            return None;
        }
        self.at = end_of_string(self.text.as_bytes(), begin);
        let written = &self.text[begin..self.at];
        match written.contains('\\') {
            true => serde_json::from_str(written).ok().map(Cow::Owned),
            false => Some(Cow::Borrowed(written.trim_matches('"'))),
        }
    }

    /// Skips a value with all that is in it.
    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(first) = self.peek() {
            match first {
                b'{' | b'[' => (depth, self.at) = (depth + 1, self.at + 1),
                b'}' | b']' => (depth, self.at) = (depth.saturating_sub(1), self.at + 1),
                b'"' => self.at = end_of_string(self.text.as_bytes(), self.at),
                _ => self.skip_while(|it| !it.is_ascii_whitespace() && !b",:{}[]\"".contains(&it)),
            }
            if depth == 0 {
                return;
            }
            self.skip_separators();
        }
    }
}
