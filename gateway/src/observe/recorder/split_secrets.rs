//! Finds secrets that a skill split across several events, none of which contains the whole secret.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use openskill_proto::v1::execute_event::Event;

use super::content::Content;
use crate::arguments::secrets::{Kind, Tokens};
use crate::observe::call_event::CallEvent;

/// The minimum length of an event's text that is searched for behind a redacted part. A shorter match could be a
/// coincidence.
const MIN_FOUND_BYTES: usize = 8;

/// The maximum length of a secret that begins in the middle of the output, in bytes.
const WINDOW_BYTES: usize = 4 * 1024;

/// Identifies a source, whose texts belong together: for example all log lines, or the texts at one path of partial
/// data.
type TextSource = u64;

/// The text of one event from one source.
struct Piece<'a> {
    /// The index of the event.
    index: usize,
    text: Cow<'a, str>,
    /// The text after redaction on its own.
    alone: String,
}

/// Returns the indexes of the events that contain a part of a secret.
pub(super) fn find_events(events: &[(Instant, CallEvent)], content: &Content<'_>) -> BTreeSet<usize> {
    let mut said = BTreeMap::<TextSource, Vec<(usize, Cow<'_, str>)>>::new();
    for (index, (_, event)) in events.iter().enumerate() {
        let CallEvent::Relayed(event) = event else { continue };
        match &**event {
            Event::Log(it) => said.entry(0).or_default().push((index, Cow::Borrowed(&it.message))),
            Event::Progress(it) => said.entry(1).or_default().push((index, Cow::Borrowed(&it.message))),
            Event::Partial(it) => {
                pieces(&it.data_json, |place, text| said.entry(place).or_default().push((index, text)))
            }
            Event::Artifact(_) | Event::InputRequired(_) | Event::Result(_) => {}
        }
    }
    let mut torn = BTreeSet::new();
    for pieces in said.into_values().filter(|it| it.len() > 1) {
        // A skill may write whole lines or parts of a line, and a secret may begin with any piece.
        let pieces: Vec<_> = pieces.into_iter().map(|(index, text)| Piece::new(index, text, content)).collect();
        compare(&pieces, "\n", content, &mut torn);
        compare(&pieces, "", content, &mut torn);
        for start in 1..pieces.len() {
            compare(window(&pieces[start..]), "", content, &mut torn);
        }
    }
    torn
}

impl<'a> Piece<'a> {
    fn new(index: usize, text: Cow<'a, str>, content: &Content<'_>) -> Self {
        let alone = content.redact_text(&text).into_owned();
        Self { index, text, alone }
    }
}

/// Returns the first pieces, up to the maximum length of a secret.
fn window<'p, 'a>(pieces: &'p [Piece<'a>]) -> &'p [Piece<'a>] {
    let lengths = pieces.iter().scan(0, |sum, piece| {
        *sum += piece.text.len();
        Some(*sum)
    });
    &pieces[..lengths.take_while(|it| *it <= WINDOW_BYTES).count()]
}

/// Calls `tell` with each text in partial data, and its path.
fn pieces<'t>(data: &'t str, mut tell: impl FnMut(TextSource, Cow<'t, str>)) {
    let Some(mut tokens) = Tokens::parse(data) else { return tell(2, Cow::Borrowed(data)) };
    // The paths of the open objects and lists, and of the current key.
    let (mut open, mut place) = (Vec::new(), 3);
    while let Some((kind, token)) = tokens.next() {
        match kind {
            Kind::Open => open.push(place),
            Kind::Close => place = open.pop().unwrap_or(3),
            Kind::Key => place = below(open.last().copied().unwrap_or(3), &tokens.decode(&token)),
            Kind::Text => tell(place, tokens.decode(&token)),
            Kind::Scalar => {}
        }
    }
}

fn below(place: TextSource, name: &str) -> TextSource {
    let mut hasher = DefaultHasher::new();
    (place, name).hash(&mut hasher);
    hasher.finish()
}

/// Compares the events that are redacted one by one with their concatenation redacted as a whole. An event's text
/// that also survives in the whole is not part of a split secret.
fn compare(pieces: &[Piece<'_>], between: &str, content: &Content<'_>, torn: &mut BTreeSet<usize>) {
    let whole: String = pieces.iter().flat_map(|it| [&*it.text, between]).collect();
    let whole = content.redact_text(&whole);
    let (mut rest, mut is_in_step) = (&*whole, true);
    for Piece { index, alone, .. } in pieces {
        let alone = [alone.as_str(), between].concat();
        let found = match rest.strip_prefix(&*alone) {
            Some(after) if is_in_step => Some(after),
            _ if alone.len() < MIN_FOUND_BYTES => None,
            _ => rest.find(&*alone).map(|at| &rest[at + alone.len()..]),
        };
        is_in_step = found.is_some();
        match found {
            Some(after) => rest = after,
            None => drop(torn.insert(*index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{Log, Partial};
    use openskill_redact::Redactor;
    use serde_json::json;

    use super::*;

    const KEY: [&str; 3] = ["sk-proj-Zk3v9Qp", "X7mB2nR8tY5wL1c", "D4fG6hJ0aS"];

    fn indexes_of(events: impl IntoIterator<Item = Event>, secret: Option<&str>) -> Vec<usize> {
        let redactor = Redactor::default();
        let mut content = Content::new(&redactor, None);
        if let Some(secret) = secret {
            content.learn(json!({ "password": secret }).to_string().into());
        }
        let events: Vec<_> = events.into_iter().map(|it| (Instant::now(), CallEvent::Relayed(Box::new(it)))).collect();
        find_events(&events, &content).into_iter().collect()
    }

    fn log(message: &str) -> Event {
        Event::Log(Log { level: "info".to_owned(), message: message.to_owned() })
    }

    fn partial(data: &serde_json::Value) -> Event {
        Event::Partial(Partial { data_json: data.to_string() })
    }

    #[test]
    fn what_belongs_to_no_secret_is_not_torn() {
        let lines = ["starting", "step 1", "step 2", "", "a", "a", "done: 3 files", "/tmp/x"];
        assert!(indexes_of(lines.map(log), None).is_empty());
        let alone = ["before", "key sk-proj-Zk3v9QpX7mB2nR8tY5wL1cD4fG6hJ0aS used", "after"];
        assert!(indexes_of(alone.map(log), None).is_empty(), "it is redacted where it is");
    }

    #[test]
    fn a_private_key_that_is_printed_line_by_line_is_torn() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let lines = [
            "first line",
            "-----BEGIN PRIVATE KEY-----",
            line,
            "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S",
            "-----END PRIVATE KEY-----",
            "and on it goes",
        ];
        let found = indexes_of(lines.map(log), None);
        assert!([2, 3].iter().all(|it| found.contains(it)) && !found.contains(&0) && !found.contains(&5), "{found:?}");
    }

    #[test]
    fn a_token_in_chunks_is_torn_in_logs_and_in_partial_data() {
        let logs = [log("the beginning"), log(KEY[0]), log(KEY[1]), log(KEY[2]), log(" and the end of it")];
        assert_eq!(indexes_of(logs, None), [1, 2, 3]);
        let parts = KEY.map(|it| partial(&json!({ "type": "delta", "text": it })));
        assert_eq!(indexes_of(parts, None), [0, 1, 2]);
        assert_eq!(indexes_of(KEY.map(|it| partial(&json!(it))), None), [0, 1, 2]);
    }

    #[test]
    fn a_value_that_is_secret_for_its_name_is_torn_in_chunks() {
        let chunks = ["it is correct h", "orse batt", "ery staple", " which is right"];
        assert_eq!(indexes_of(chunks.map(log), Some("correct horse battery staple")), [0, 1, 2]);
        assert!(indexes_of(chunks.map(log), None).is_empty());
    }
}
