//! The conversation as the model sees it: the most recent complete rounds within a budget.

use std::collections::{HashMap, VecDeque};

use openskill_model::{Message, ModelResult};

use super::result::{handle, render};
use crate::entry::{Called, EndReason, Entry, Replied, Stamped, TurnEnded};

/// The maximum size of the text to summarize, in bytes.
const MAX_SUMMARIZED_BYTES: usize = 128 * 1024;

/// The maximum number of rounds to summarize at once.
const MAX_SUMMARIZED_ROUNDS: usize = 100;

/// The part of a conversation that the model sees.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationView {
    /// The messages to send, beginning with a user message.
    pub messages: Vec<Message>,
    /// Set if older entries no longer fit: entries up to this number need a summary. The number is that of the
    /// last entry of a turn.
    pub summarize: Option<u64>,
}

/// A user message and everything before the next one.
#[derive(Debug, Default)]
struct Round {
    /// The number of the round's last entry.
    end: u64,
    messages: Vec<Message>,
}

/// Returns the last `window` messages in complete rounds. The current round is always included. If the messages
/// exceed an estimated `token_budget`, handles replace the results of earlier rounds. If that is not enough, the
/// oldest rounds are dropped, and the caller should have them summarized.
pub fn view(entries: &[Stamped], window: usize, token_budget: usize) -> ConversationView {
    let summary = entries.iter().rev().find_map(|it| match &it.entry {
        Entry::Summarized(summarized) => Some(summarized),
        _ => None,
    });
    let from = summary.map_or(0, |it| it.until);
    let recent = recent(entries, window);
    let results = results(recent);
    let mut rounds = rounds(recent.iter().filter(|it| it.number > from), &results);
    keep_last(&mut rounds, window);
    let last = rounds.len().saturating_sub(1);
    let mut sizes: VecDeque<_> = rounds.iter().map(|it| tokens(&it.messages)).collect();
    let mut older = 0;
    while sizes.iter().sum::<usize>() > token_budget && older < last {
        shrink(&mut rounds[older], &results);
        sizes[older] = tokens(&rounds[older].messages);
        older += 1;
    }
    let mut summarize = None;
    while sizes.iter().sum::<usize>() > token_budget && rounds.len() > 1 {
        summarize = Some(rounds.remove(0).end);
        sizes.pop_front();
    }
    let mut messages: Vec<_> = rounds.into_iter().flat_map(|it| it.messages).collect();
    if let (Some(summary), Some(Message::User(text))) = (summary, messages.first_mut()) {
        *text = format!("[Summary of the conversation so far]\n{}\n[End of the summary]\n\n{text}", summary.text);
    }
    ConversationView { messages, summarize }
}

/// Returns the instructions and the text for a request that summarizes the entries up to `until`.
pub fn summary_request(entries: &[Stamped], until: u64) -> (String, String) {
    let before = &entries[..entries.partition_point(|it| it.number <= until)];
    let recent = recent(before, MAX_SUMMARIZED_ROUNDS);
    let results = results(recent);
    let earlier = entries.iter().rev().find_map(|it| match &it.entry {
        Entry::Summarized(it) if it.until < until => Some(it),
        _ => None,
    });
    let from = earlier.map_or(0, |it| it.until);
    let mut text = earlier.map(|it| format!("Earlier: {}\n", it.text)).unwrap_or_default();
    for round in rounds(recent.iter().filter(|it| it.number > from), &results) {
        for message in round.messages {
            match message {
                Message::User(said) => text.push_str(&format!("User: {said}\n")),
                Message::Assistant { text: said, calls } => {
                    text.push_str(&format!("Assistant: {said}\n"));
                    calls.iter().for_each(|it| text.push_str(&format!("Call {}: {}\n", it.name, it.arguments)));
                }
                Message::Results(all) => all.iter().for_each(|it| text.push_str(&format!("Result: {}\n", it.content))),
            }
        }
    }
    let from = text.ceil_char_boundary(text.len().saturating_sub(MAX_SUMMARIZED_BYTES));
    (include_str!("prompt/summary.txt").trim_ascii_end().to_owned(), text[from..].to_owned())
}

/// Returns the entries of the last `rounds` rounds, at least one. A round has at least one message, so a window
/// never needs more rounds than messages. Skips earlier entries, of which there may be many.
fn recent(entries: &[Stamped], rounds: usize) -> &[Stamped] {
    let begins = entries.iter().enumerate().rev().filter(|(_, it)| matches!(it.entry, Entry::Started(_)));
    let first = begins.take(rounds.max(1)).last().map_or(0, |(index, _)| index);
    &entries[first..]
}

fn results(entries: &[Stamped]) -> HashMap<&str, &Called> {
    let called = entries.iter().filter_map(|it| match &it.entry {
        Entry::Called(called) => Some((called.call_id.as_str(), called)),
        _ => None,
    });
    called.collect()
}

fn rounds<'a>(entries: impl Iterator<Item = &'a Stamped>, results: &HashMap<&str, &Called>) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    for stamped in entries {
        if let Entry::Started(started) = &stamped.entry {
            rounds.push(Round { end: 0, messages: vec![Message::User(started.text.clone())] });
        }
        let Some(round) = rounds.last_mut() else { continue };
        round.end = stamped.number;
        match &stamped.entry {
            Entry::Replied(replied) => round.messages.extend(reply(replied, results)),
            Entry::Ended(ended) => round.messages.extend(ending(ended, round.messages.last())),
            _ => {}
        }
    }
    rounds
}

/// Returns a reply with the results of its calls, or nothing while a call still has no result.
fn reply(replied: &Replied, results: &HashMap<&str, &Called>) -> Vec<Message> {
    let called: Vec<_> = replied.calls.iter().filter_map(|call| results.get(call.id.as_str())).collect();
    if called.len() < replied.calls.len() {
        return Vec::new();
    }
    let mut messages = vec![Message::Assistant { text: replied.text.clone(), calls: replied.calls.clone() }];
    if !called.is_empty() {
        let results = called.into_iter().map(|it| ModelResult {
            call_id: it.call_id.clone(),
            name: it.name.clone(),
            content: render(it).content,
            is_error: !it.outcome.is_success(),
            pictures: Vec::new(),
        });
        messages.push(Message::Results(results.collect()));
    }
    messages
}

/// Returns the final assistant message, unless the last reply already contains it. A round must not end with a
/// user message or results.
fn ending(ended: &TurnEnded, last: Option<&Message>) -> Option<Message> {
    let has_answer = matches!(last, Some(Message::Assistant { calls, text }) if calls.is_empty() && !text.is_empty());
    let text = match ended.end {
        _ if has_answer => return None,
        EndReason::Cancelled => "[The user cancelled this turn.]".to_owned(),
        EndReason::Failed => "[This turn failed before it was answered.]".to_owned(),
        EndReason::Completed | EndReason::Limit if ended.text.is_empty() => "[No answer.]".to_owned(),
        EndReason::Completed | EndReason::Limit => ended.text.clone(),
    };
    Some(Message::Assistant { text, calls: Vec::new() })
}

/// Drops the oldest rounds while more than `window` messages remain.
fn keep_last(rounds: &mut Vec<Round>, window: usize) {
    let count = |rounds: &[Round]| rounds.iter().map(|it| it.messages.len()).sum::<usize>();
    while rounds.len() > 1 && count(rounds) > window {
        rounds.remove(0);
    }
}

/// Replaces the results of a round with handles.
fn shrink(round: &mut Round, called: &HashMap<&str, &Called>) {
    for result in round.messages.iter_mut().flat_map(Message::results_mut) {
        if let Some(called) = called.get(result.call_id.as_str()) {
            let handle = handle(called);
            if handle.len() < result.content.len() {
                result.content = handle;
            }
        }
    }
}

fn tokens(messages: &[Message]) -> usize {
    let size = |message: &Message| match message {
        Message::User(text) => estimate(text),
        Message::Assistant { text, calls } => {
            estimate(text) + calls.iter().map(|it| estimate(&it.name) + estimate(&it.arguments) + 8).sum::<usize>()
        }
        Message::Results(results) => results.iter().map(|it| estimate(&it.content) + 8).sum(),
    };
    messages.iter().map(size).sum()
}

/// Estimates the number of tokens in a text: one for every four bytes of ASCII, and one for every other character.
fn estimate(text: &str) -> usize {
    // Count the first bytes of non-ASCII characters.
    let others = text.bytes().filter(|it| *it >= 0xc0).count();
    let ascii = text.bytes().filter(u8::is_ascii).count();
    ascii / 4 + others + 4
}

#[cfg(test)]
mod tests {
    use openskill_model::ModelCall;

    use super::*;
    use crate::entry::{Outcome, Started, Summarized};

    fn log(entries: Vec<Entry>) -> Vec<Stamped> {
        entries.into_iter().zip(1..).map(|(entry, number)| Stamped { number, time_us: 0, entry, bytes: 0 }).collect()
    }

    fn turn(n: usize, data: &str) -> Vec<Entry> {
        let id = format!("call_{n}");
        let call = ModelCall { id: id.clone(), name: "read".into(), arguments: "{}".into(), ..ModelCall::default() };
        vec![
            Entry::Started(Started { text: format!("question {n}"), ..Started::default() }),
            Entry::Replied(Replied { calls: vec![call], ..Replied::default() }),
            Entry::Called(Called { call_id: id, outcome: Outcome::success(data, ""), ..Called::default() }),
            Entry::Replied(Replied { text: format!("answer {n}"), ..Replied::default() }),
            Entry::Ended(TurnEnded { text: format!("answer {n}"), ..TurnEnded::default() }),
        ]
    }

    fn begins(view: &ConversationView) -> &str {
        match view.messages.first() {
            Some(Message::User(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_window_holds_whole_rounds() {
        let entries = log((0..10).flat_map(|n| turn(n, "1")).collect());
        let view = view(&entries, 10, 100_000);
        assert_eq!((begins(&view), view.messages.len()), ("question 8", 8));
        assert_eq!(view.summarize, None);
    }

    #[test]
    fn past_the_budget_old_results_become_handles_and_then_rounds_a_summary() {
        let large = format!("\"{}\"", "x".repeat(4000));
        let entries = log((0..4).flat_map(|n| turn(n, &large)).collect());
        let shrunk = view(&entries, 100, 2000);
        assert_eq!((begins(&shrunk), shrunk.summarize), ("question 0", None));
        assert!(format!("{:?}", shrunk.messages[2]).contains("an earlier result of 4002 bytes"));
        let tight = view(&entries, 100, 1200);
        assert_eq!(tight.summarize.map(|it| it % 5), Some(0));
        let until = tight.summarize.unwrap_or_default();
        let (_, text) = summary_request(&entries, until);
        assert!(text.contains("User: question 0") && !text.contains("question 3"), "{text}");
        let summarized = Summarized { until, text: "they spoke".into(), ..Summarized::default() };
        let mut entries = entries;
        entries.push(Stamped { number: 21, time_us: 0, entry: Entry::Summarized(summarized), bytes: 0 });
        let after = view(&entries, 100, 1200);
        assert!(begins(&after).contains("they spoke"));
        assert_eq!(after.summarize, None);
    }

    #[test]
    fn a_cancelled_turn_says_so_and_an_open_one_shows_what_is_settled() {
        let mut entries = turn(0, "1");
        entries.truncate(2);
        entries.push(Entry::Ended(TurnEnded { end: EndReason::Cancelled, ..TurnEnded::default() }));
        entries.extend(turn(1, "1").into_iter().take(3));
        let view = view(&log(entries), 100, 100_000);
        assert!(matches!(&view.messages[1], Message::Assistant { text, .. } if text.contains("cancelled")));
        assert_eq!(view.messages.len(), 5);
    }
}
