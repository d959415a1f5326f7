//! Removes secrets from every entry before it is written to a conversation's log.

use crate::entry::{
    Answered, ApprovalAsked, ApprovalDecided, Called, Calling, Entry, Outcome, QuestionAnswer, QuestionsAsked,
    Repaired, Replied, ReplyCall, Routing, Started, Summarized, TurnEnded, UserQuestion,
};
use crate::secrets::Secrets;

impl Entry {
    /// Returns the entry without secrets. Ids stay unchanged, because other entries refer to them.
    pub(crate) fn without_secrets(self, secrets: &Secrets) -> Self {
        let text = |text: String| secrets.conceal(&text);
        match self {
            Self::Started(it) => Self::Started(Started { text: text(it.text), ..it }),
            Self::Replied(it) => Self::Replied(conceal_reply(it, secrets)),
            Self::ApprovalAsked(it) => Self::ApprovalAsked(ApprovalAsked {
                arguments: secrets.refer(&it.arguments),
                repairs: conceal_repairs(it.repairs, secrets),
                reason: text(it.reason),
                ..it
            }),
            Self::ApprovalDecided(it) => Self::ApprovalDecided(ApprovalDecided {
                arguments: secrets.refer(&it.arguments),
                reason: text(it.reason),
                ..it
            }),
            Self::Calling(it) => Self::Calling(Calling {
                arguments: secrets.refer(&it.arguments),
                masked: secrets.refer(&it.masked),
                repairs: conceal_repairs(it.repairs, secrets),
                ..it
            }),
            Self::Asked(it) => {
                let questions = it.questions.into_iter().map(|it| conceal_question(it, secrets)).collect();
                Self::Asked(QuestionsAsked { message: text(it.message), questions, ..it })
            }
            Self::Answered(it) => {
                let answer = |it: QuestionAnswer| QuestionAnswer { answer: secrets.refer(&it.answer), ..it };
                Self::Answered(Answered { answers: it.answers.into_iter().map(answer).collect(), ..it })
            }
            Self::Called(it) => Self::Called(Called { outcome: conceal_outcome(it.outcome, secrets), ..it }),
            Self::Summarized(it) => Self::Summarized(Summarized { text: text(it.text), ..it }),
            Self::Ended(it) => Self::Ended(TurnEnded { text: text(it.text), error: text(it.error), ..it }),
            Self::Waiting { .. } => self,
        }
    }
}

fn conceal_reply(it: Replied, secrets: &Secrets) -> Replied {
    let call = |it: ReplyCall| ReplyCall { arguments: secrets.refer(&it.arguments), ..it };
    Replied {
        text: secrets.conceal(&it.text),
        calls: it.calls.into_iter().map(call).collect(),
        routing: it.routing.map(|it| Routing { reason: secrets.conceal(&it.reason), ..it }),
        ..it
    }
}

fn conceal_repairs(all: Vec<Repaired>, secrets: &Secrets) -> Vec<Repaired> {
    let conceal = |json: &str| secrets.conceal_value(json);
    let repair = |it: Repaired| Repaired {
        path: secrets.conceal(&it.path),
        kind: it.kind,
        before: conceal(&it.before),
        after: conceal(&it.after),
    };
    all.into_iter().map(repair).collect()
}

/// Returns the question without secrets. Ids stay unchanged. Answers name the options by their text without
/// secrets.
pub(crate) fn conceal_question(it: UserQuestion, secrets: &Secrets) -> UserQuestion {
    let options = it.options.iter().map(|it| secrets.conceal(it)).collect();
    UserQuestion { text: secrets.conceal(&it.text), options, ..it }
}

fn conceal_outcome(it: Outcome, secrets: &Secrets) -> Outcome {
    let conceal = |text: String| secrets.conceal(&text);
    Outcome {
        message: conceal(it.message),
        details: conceal(it.details),
        data: secrets.conceal_value(&it.data),
        text: conceal(it.text),
        warnings: it.warnings.into_iter().map(conceal).collect(),
        ..it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let call = ReplyCall { arguments: json(), ..ReplyCall::default() };
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
