//! Finds the parts of a question that no quote covers, and the next query for them.

use crate::pages::question::Question;
use crate::pages::quote::Quote;

/// Returns the terms of the question that no quote contains, as written in the question.
pub fn missing<'a>(question: &'a Question, quotes: &[Quote]) -> Vec<&'a str> {
    let has = quotes.iter().fold(0, |bits, it| bits | it.has);
    let terms = question.terms.iter().take(64).enumerate();
    terms.filter(|(at, _)| has & (1 << at) == 0).map(|(_, it)| it.shown.as_str()).collect()
}

/// Returns a query for the missing terms, together with names from the question. Returns `None` if nothing is
/// missing or all such queries were already made.
pub fn next_query(question: &Question, quotes: &[Quote], asked: &[String]) -> Option<String> {
    let missing = missing(question, quotes);
    if missing.is_empty() {
        return None;
    }
    // Names give the query its context. With all names it might equal the question, so try fewer names too.
    let names: Vec<&str> = question.terms.iter().filter(|it| it.weight > 1.0).map(|it| it.shown.as_str()).collect();
    let queries = [4, 2, 0].into_iter().map(|most| {
        let names = names.iter().filter(|it| !missing.contains(it)).take(most);
        names.chain(missing.iter().take(8)).copied().collect::<Vec<_>>()
    });
    let mut new = queries.filter(|it| it.len() < question.terms.len()).map(|it| it.join(" "));
    new.find(|query| !asked.iter().any(|it| it.eq_ignore_ascii_case(query)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_quote_has_is_asked_for() {
        let question = Question::new("When was the Eiffel Tower painted yellow?");
        let quote = Quote { page: 0, range: 0..1, has: 0b11 };
        assert_eq!(missing(&question, std::slice::from_ref(&quote)), ["painted", "yellow"]);
        let query = next_query(&question, std::slice::from_ref(&quote), &[]).unwrap();
        assert_eq!(query, "painted yellow");
        assert_eq!(next_query(&question, std::slice::from_ref(&quote), &[query]), None);
        assert_eq!(next_query(&question, &[Quote { has: 0b1111, ..quote }], &[]), None);
    }
}
