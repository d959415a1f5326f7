//! Measures the ranking on SQuAD: `cargo run -p openskill-text --release --example squad -- dev-v1.1.json`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use openskill_text::pages::document::Document;
use openskill_text::pages::index::{Index, TermCounts};
use openskill_text::pages::plain;
use openskill_text::pages::question::Question;
use openskill_text::pages::quote::{choose, fit};
use openskill_text::pages::rank::{Candidate, Weights, page_scores, rank};

fn main() {
    let path = std::env::args().nth(1).expect("the path of dev-v1.1.json");
    let data: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut documents: Vec<Document> = Vec::new();
    let mut questions: Vec<(String, usize, Vec<String>)> = Vec::new();
    let list = |it: &serde_json::Value| it.as_array().unwrap().clone();
    for article in list(&data["data"]) {
        for paragraph in list(&article["paragraphs"]) {
            let mut document = plain::read(paragraph["context"].as_str().unwrap());
            document.title = article["title"].as_str().unwrap().replace('_', " ");
            for asked in list(&paragraph["qas"]) {
                let answers =
                    list(&asked["answers"]).iter().map(|it| it["text"].as_str().unwrap().to_owned()).collect();
                questions.push((asked["question"].as_str().unwrap().to_owned(), documents.len(), answers));
            }
            documents.push(document);
        }
    }
    let mut index = Index::default();
    documents.iter().for_each(|it| index.add(&TermCounts::from_document(it)));
    let number = |name: &str, default: usize| std::env::var(name).map_or(default, |it| it.parse().unwrap());
    let (step, offset) = (number("STEP", 5), number("OFFSET", 1));
    let (mut asked, mut first, mut three, mut page1, mut page3, mut bytes) = (0, 0, 0, 0, 0, 0);
    let (mut plain_page3, mut low) = (0, 0);
    let weights = weights();
    for (text, right, answers) in questions.iter().skip(offset).step_by(step) {
        let question = Question::new(text);
        let found = index.find(&question, number("PAGES", 12));
        plain_page3 += usize::from(found.iter().take(3).any(|it| it.0 == *right));
        let candidates: Vec<_> =
            found.iter().map(|(at, score)| Candidate { document: &documents[*at], score: *score }).collect();
        let scored = rank(&question, &candidates, |it| index.rarity(it), &weights, || false);
        low += usize::from(scored.first().is_none_or(|it| it.coverage < 0.01 * number("LOW", 20) as f64));
        let order: Vec<_> = page_scores(&scored).into_iter().map(|it| found[it.0].0).collect();
        let texts: Vec<_> = candidates.iter().map(|it| it.document).collect();
        let quotes = choose(&texts, &fit(scored), 3, number("PER_PAGE", 2));
        let shown: Vec<_> = quotes.iter().map(|it| &texts[it.page].text[it.range.clone()]).collect();
        let holds = |quote: &&&str| answers.iter().any(|it| quote.contains(it.as_str()));
        asked += 1;
        bytes += shown.first().map_or(0, |it| it.len());
        first += usize::from(shown.iter().take(1).any(|it| holds(&it)));
        three += usize::from(shown.iter().any(|it| holds(&it)));
        page1 += usize::from(order.first() == Some(right));
        page3 += usize::from(order.iter().take(3).any(|it| it == right));
        if std::env::var("SHOW").is_ok() && !shown.iter().take(1).any(|it| holds(&it)) {
            println!("Q {text}\n  right page {}: {answers:?}\n  got {shown:?}", order.first() == Some(right));
        }
    }
    let part = |it: usize| 100.0 * it as f64 / asked as f64;
    println!(
        "{asked} questions: first {:.1} three {:.1} page1 {:.1} page3 {:.1} (bm25 page3 {:.1}), {} bytes a quote, {low} with little coverage",
        part(first),
        part(three),
        part(page1),
        part(page3),
        part(plain_page3),
        bytes / asked
    );
}

fn weights() -> Weights {
    let mut weights = Weights::default();
    for (name, value) in std::env::vars() {
        let place = match name.as_str() {
            "K1" => &mut weights.bm25.k1,
            "B" => &mut weights.bm25.b,
            "SIMILAR" => &mut weights.similar,
            "BEFORE" => &mut weights.before,
            "AFTER" => &mut weights.after,
            "HEADING" => &mut weights.heading,
            "BLOCK" => &mut weights.block,
            "PAIR" => &mut weights.pair,
            "CUE" => &mut weights.cue,
            "PAGE" => &mut weights.page,
            _ => continue,
        };
        *place = value.parse().unwrap();
    }
    weights
}
