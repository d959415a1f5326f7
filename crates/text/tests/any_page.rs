//! Whatever a page holds, it is read without a panic, and what is quoted is in it.

use openskill_text::pages::charset::decode;
use openskill_text::pages::document::Document;
use openskill_text::pages::question::Question;
use openskill_text::pages::quote::{choose, fit, is_verbatim};
use openskill_text::pages::rank::{Candidate, Weights, rank};
use openskill_text::pages::sentences::sentences;
use openskill_text::pages::support::keep_supported;
use openskill_text::pages::{html, markdown, plain};
use openskill_text::words::words;
use proptest::prelude::*;

/// Pieces that pages are made of, and any other characters.
fn page() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<p>",
        "</p>",
        "<main>",
        "</main>",
        "<li>",
        "<td>",
        "<table>",
        "<tr>",
        "<h2>",
        "</h2>",
        "<pre>",
        "<title>",
        "</title>",
        "<script>",
        "</script>",
        "<base href=x>",
        "<a href='y'>",
        "<div hidden>",
        "</div>",
        "<!--",
        "-->",
        "&amp;",
        "&#x202e;",
        "\n",
        "\n\n",
        "# ",
        "- ",
        "| ",
        "```\n",
        "Rhine ",
        "The Rhine is long. ",
        "河流",
        "。",
        "1,000 ",
        "3.5",
        "Dr. ",
        "\u{ad}",
        "\u{200d}",
        "é",
        "'s ",
        "\" ",
    ]);
    prop::collection::vec(prop_oneof![3 => pieces.prop_map(str::to_owned), 1 => "\\PC{0,8}"], 0..80)
        .prop_map(|it| it.concat())
}

fn check(document: &Document, question: &str) -> Result<(), TestCaseError> {
    for block in &document.blocks {
        prop_assert!(document.text.get(block.range.clone()).is_some());
    }
    let pages = [Candidate { document, score: 1.0 }];
    let scored = rank(&Question::new(question), &pages, |_| 1.0, &Weights::default(), || false);
    for quote in choose(&[document], &fit(scored), 5, 5) {
        let text = document.text.get(quote.range.clone());
        prop_assert!(text.is_some_and(|it| is_verbatim(document, it)), "{quote:?}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_page_is_read_and_quoted(text in page(), question in page()) {
        for document in [html::read(&text), markdown::read(&text), plain::read(&text)] {
            check(&document, &question)?;
            check(&document, "What is the Rhine, and how long is it? 河流是什么？")?;
        }
    }

    #[test]
    fn any_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200), label in "[a-z0-9=;/ -]{0,30}") {
        let text = decode(&bytes, &label);
        html::read(&text);
    }

    #[test]
    fn words_and_sentences_are_in_their_text(text in page()) {
        for word in words(&text) {
            prop_assert!(text.get(word.start..word.end).is_some_and(|it| !it.is_empty()));
        }
        let mut end = 0;
        for range in sentences(&text) {
            prop_assert!(range.start >= end && text.get(range.clone()).is_some());
            end = range.end;
        }
    }

    #[test]
    fn any_answer_of_a_model_is_checked(answer in page(), mark in "\\[[0-9]{0,3}\\]?") {
        let said = format!("{answer}{mark} {answer} [1]");
        let left = keep_supported(&said, &["The Rhine is long."], "How long is the Rhine?");
        prop_assert!(left.text.is_empty() || left.text.contains("[1]"));
    }
}
