//! What follows from the answer to an event: the next attempt, or none. Pure.

use std::time::Duration;

use openskill_store::deliveries::{DeliveryClaim, Settlement};

use super::send::Answer;

/// The pauses after the first attempts, in seconds. The last one repeats until a day has passed.
const PAUSES_S: [u64; 7] = [5, 30, 120, 600, 3600, 2 * 3600, 4 * 3600];

/// The pauses that a server may ask for.
const ASKED_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4 * 3600));

/// The maximum number of attempts, for a server that asks for short pauses.
const MAX_ATTEMPTS: i64 = 100;

/// The status of a server that wants no more events.
const GONE: u16 = 410;

/// Decides what follows from an answer. `jitter`, from 0 to 1, keeps attempts that failed together apart.
pub(super) fn settlement(answer: Answer, claim: &DeliveryClaim, now_ms: i64, jitter: f64) -> Settlement {
    let Answer { status, failure, retry_after } = answer;
    if failure.is_empty() {
        return Settlement::Delivered;
    }
    let pause = pause(claim.attempt, retry_after).mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 5.0);
    let pause_ms = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 2);
    let is_last = status == Some(GONE) || claim.attempt >= MAX_ATTEMPTS || now_ms + pause_ms > claim.give_up_ms;
    if is_last { Settlement::Failed(failure) } else { Settlement::Later { pause_ms, failure } }
}

/// Returns the pause after an attempt, which counts from 1. The server may ask for another one.
fn pause(attempt: i64, asked: Option<Duration>) -> Duration {
    let number = usize::try_from(attempt - 1).unwrap_or_default().min(PAUSES_S.len() - 1);
    let usual = Duration::from_secs(PAUSES_S[number]);
    asked.map_or(usual, |asked| asked.clamp(ASKED_PAUSES.0, ASKED_PAUSES.1))
}

#[cfg(test)]
mod tests {
    use openskill_store::deliveries::Webhook;

    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn claim(attempt: i64) -> DeliveryClaim {
        let webhook = Webhook { url: String::new(), host: String::new(), traceparent: String::new() };
        DeliveryClaim { operation_id: String::new(), webhook, attempt, epoch: attempt, give_up_ms: DAY_MS }
    }

    fn refused(status: u16, retry_after: Option<u64>) -> Answer {
        let retry_after = retry_after.map(Duration::from_secs);
        Answer { status: Some(status), failure: "refused".to_owned(), retry_after }
    }

    fn pause_ms(settlement: &Settlement) -> Option<i64> {
        if let Settlement::Later { pause_ms, .. } = settlement { Some(*pause_ms) } else { None }
    }

    #[test]
    fn a_server_that_never_accepts_is_asked_ever_more_rarely_for_a_day() {
        for jitter in [0.0, 1.0] {
            let (mut now, mut pauses) = (0, Vec::new());
            while let Some(pause) =
                pause_ms(&settlement(refused(500, None), &claim(pauses.len() as i64 + 1), now, jitter))
            {
                now += pause;
                pauses.push(pause);
            }
            assert!(pauses.is_sorted() && (9..13).contains(&pauses.len()), "{pauses:?}");
            assert!(pauses[0] >= 5000 && (DAY_MS * 3 / 4..=DAY_MS).contains(&now), "{now} {pauses:?}");
        }
    }

    #[test]
    fn a_server_may_ask_for_another_pause_within_bounds_or_for_no_more_events() {
        let after = |attempt, retry_after| pause_ms(&settlement(refused(503, retry_after), &claim(attempt), 0, 0.0));
        assert_eq!(after(1, Some(60)), Some(60_000));
        assert_eq!(after(1, Some(0)), Some(1000));
        assert_eq!(after(1, Some(u64::MAX)), Some(4 * 3_600_000));
        assert_eq!(after(MAX_ATTEMPTS, Some(0)), None);
        let gone = settlement(refused(410, Some(1)), &claim(1), 0, 0.0);
        assert_eq!(gone, Settlement::Failed("refused".to_owned()));
        assert_eq!(
            settlement(Answer { status: Some(202), ..Answer::default() }, &claim(1), 0, 0.0),
            Settlement::Delivered
        );
    }
}
