//! Removes secrets from every entry before it is written to a conversation's log.

use crate::entry::{Entry, Outcome, Repaired, UserQuestion};
use crate::secrets::Secrets;

impl Entry {
    /// Returns the entry without secrets. Ids stay unchanged, because other entries refer to them.
    pub(crate) fn without_secrets(mut self, secrets: &Secrets) -> Self {
        let conceal = |text: &mut String| *text = secrets.conceal(text);
        let refer = |json: &mut String| *json = secrets.refer(json);
        match &mut self {
            Self::Started(it) => conceal(&mut it.text),
            Self::Replied(it) => {
                conceal(&mut it.text);
                it.calls.iter_mut().for_each(|it| refer(&mut it.arguments));
                it.routing.iter_mut().for_each(|it| conceal(&mut it.reason));
            }
            Self::ApprovalAsked(it) => {
                refer(&mut it.arguments);
                it.repairs.iter_mut().for_each(|it| conceal_repair(it, secrets));
                conceal(&mut it.reason);
            }
            Self::ApprovalDecided(it) => {
                refer(&mut it.arguments);
                conceal(&mut it.reason);
            }
            Self::Calling(it) => {
                refer(&mut it.arguments);
                refer(&mut it.masked);
                it.repairs.iter_mut().for_each(|it| conceal_repair(it, secrets));
            }
            Self::Asked(it) => {
                conceal(&mut it.message);
                it.questions.iter_mut().for_each(|it| conceal_question(it, secrets));
            }
            Self::Answered(it) => it.answers.iter_mut().for_each(|it| refer(&mut it.answer)),
            Self::Called(it) => conceal_outcome(&mut it.outcome, secrets),
            Self::Summarized(it) => conceal(&mut it.text),
            Self::Ended(it) => [&mut it.text, &mut it.error].into_iter().for_each(conceal),
            Self::Waiting { .. } => {}
        }
        self
    }
}

fn conceal_repair(it: &mut Repaired, secrets: &Secrets) {
    it.path = secrets.conceal(&it.path);
    it.before = secrets.conceal_value(&it.before);
    it.after = secrets.conceal_value(&it.after);
}

/// Removes secrets from a question. Ids stay unchanged. Answers name the options by their text without secrets.
pub(crate) fn conceal_question(it: &mut UserQuestion, secrets: &Secrets) {
    std::iter::once(&mut it.text).chain(&mut it.options).for_each(|text| *text = secrets.conceal(text));
}

fn conceal_outcome(it: &mut Outcome, secrets: &Secrets) {
    let texts = [&mut it.message, &mut it.details, &mut it.text];
    texts.into_iter().chain(&mut it.warnings).for_each(|text| *text = secrets.conceal(text));
    it.data = secrets.conceal_value(&it.data);
}

#[cfg(test)]
mod tests {
    use openskill_model::ModelCall;

    use super::*;
    use crate::entry::{
        ApprovalAsked, ApprovalDecided, Called, Calling, QuestionsAsked, Replied, Started, Summarized, TurnEnded,
    };

    #[test]
    fn nothing_that_is_written_holds_a_secret() {
        let secrets = Secrets::default();
        secrets.keep("q1/pin", "04711815".to_owned());
        let (text, json) = (|| "got 04711815".to_owned(), || r#"{"pin":"04711815"}"#.to_owned());
        let repaired = Repaired {
            path: "/04711815".into(),
            before: r#""04711815""#.into(),
            after: "4711815".into(),
            ..Repaired::default()
        };
        let question = UserQuestion { text: text(), options: vec![text()], ..UserQuestion::default() };
        let call = ModelCall { arguments: json(), ..ModelCall::default() };
        let outcome = Outcome {
            message: text(),
            details: json(),
            data: "4711815".into(),
            text: text(),
            warnings: vec![text()],
            ..Outcome::default()
        };
        for entry in [
            Entry::Started(Started { text: text(), ..Started::default() }),
            Entry::Replied(Replied { text: text(), calls: vec![call], ..Replied::default() }),
            Entry::ApprovalAsked(ApprovalAsked {
                arguments: json(),
                repairs: vec![repaired.clone()],
                ..ApprovalAsked::default()
            }),
            Entry::ApprovalDecided(ApprovalDecided { arguments: json(), reason: text(), ..ApprovalDecided::default() }),
            Entry::Calling(Calling { arguments: json(), repairs: vec![repaired], ..Calling::default() }),
            Entry::Asked(QuestionsAsked { message: text(), questions: vec![question], ..QuestionsAsked::default() }),
            Entry::Called(Called { outcome, ..Called::default() }),
            Entry::Summarized(Summarized { text: text(), ..Summarized::default() }),
            Entry::Ended(TurnEnded { text: text(), error: text(), ..TurnEnded::default() }),
        ] {
            let written = serde_json::to_string(&entry.without_secrets(&secrets)).unwrap_or_default();
            assert!(!written.contains("4711815"), "{written}");
        }
    }

    #[test]
    fn what_a_schema_marks_is_masked() {
        let marked = Secrets::from_marked_values(&[r#""abcd""#.to_owned(), "12".to_owned()]);
        assert_eq!(marked.conceal_value(r#"{"a":"abcd","n":12,"m":123}"#), r#"{"a":"***","n":"***","m":123}"#);
    }
}
