//! Limits the control frames of an HTTP/2 connection. Pure: the caller passes the time.
//!
//! A control frame carries no data but costs the server time: PING and SETTINGS need an acknowledgement, and a
//! change of the initial window touches every open stream. Legitimate clients send them in proportion to the data
//! that they receive: some send a PING and a WINDOW_UPDATE for every piece of a response. So the bytes that the
//! server sends earn the client control frames.

use std::time::{Duration, Instant};

use crate::frames::{ACK, END_STREAM, Header, kind};

/// The budget for SETTINGS frames. Clients send one, and a few more while they measure the bandwidth.
const SETTINGS: Rate = Rate { at_once: 32, a_second: 2 };

/// The budget for all other control frames.
const OTHERS: Rate = Rate { at_once: 1024, a_second: 128 };

/// The number of sent bytes that earn one control frame.
const BYTES_A_FRAME: usize = 64;

/// The number of frames allowed at once, and the number added each second.
#[derive(Debug, Clone, Copy)]
struct Rate {
    at_once: u32,
    a_second: u32,
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    tokens: u32,
    filled: Instant,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: rate.at_once, filled: now }
    }

    /// Takes a token. Returns false if the bucket is empty. Reads the clock only when the tokens run out.
    fn take(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if self.tokens == 0 {
            self.fill(now());
        }
        let has_one = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        has_one
    }

    fn fill(&mut self, now: Instant) {
        let token = Duration::from_secs(1) / self.rate.a_second;
        let earned = now.saturating_duration_since(self.filled).as_nanos() / token.as_nanos();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.add(earned);
        // Time that does not make up a whole token counts toward the next one.
        self.filled = if earned < self.rate.at_once { self.filled + token * earned } else { now };
    }

    fn add(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens).min(self.rate.at_once);
    }
}

/// The control frames that one connection may still send.
#[derive(Debug)]
pub struct FrameBudget {
    settings: Bucket,
    others: Bucket,
    /// Sent bytes that have not yet earned a frame.
    bytes: usize,
}

impl FrameBudget {
    /// Creates the budget of a connection that starts at `now`.
    pub fn new(now: Instant) -> Self {
        Self { settings: Bucket::new(SETTINGS, now), others: Bucket::new(OTHERS, now), bytes: 0 }
    }

    /// Counts a frame from the client. Returns false if the budget is exceeded.
    pub fn count(&mut self, header: Header, now: impl FnOnce() -> Instant) -> bool {
        let has = |flag| header.flags & flag != 0;
        match header.kind {
            // Other limits apply to requests.
            kind::HEADERS => true,
            kind::DATA if header.length > 0 || has(END_STREAM) => true,
            kind::SETTINGS if !has(ACK) => self.settings.take(now),
            // Includes unknown types.
            _ => self.others.take(now),
        }
    }

    /// Counts bytes sent to the client, which earn it control frames.
    pub fn earn(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.others.add(u32::try_from(self.bytes / BYTES_A_FRAME).unwrap_or(u32::MAX));
        self.bytes %= BYTES_A_FRAME;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn header(kind: u8, flags: u8, length: u32) -> Header {
        Header { length, kind, flags, stream: 0 }
    }

    /// Returns how many of these frames the budget allows.
    fn allowed(budget: &mut FrameBudget, header: Header, now: Instant) -> u32 {
        (0..1_000_000).take_while(|_| budget.count(header, || now)).count() as u32
    }

    #[test]
    fn control_frames_are_allowed_at_once_and_then_at_a_rate() {
        let now = Instant::now();
        for (header, rate) in [(header(PING, 0, 8), OTHERS), (header(kind::SETTINGS, 0, 6), SETTINGS)] {
            let mut budget = FrameBudget::new(now);
            assert_eq!(allowed(&mut budget, header, now), rate.at_once);
            assert_eq!(allowed(&mut budget, header, now + Duration::from_secs(2)), 2 * rate.a_second);
            assert_eq!(allowed(&mut budget, header, now + Duration::from_secs(2)), 0);
            assert_eq!(allowed(&mut budget, header, now + Duration::from_secs(3600)), rate.at_once);
        }
    }

    #[test]
    fn settings_have_a_budget_of_their_own_and_their_acknowledgement_is_not_one() {
        let now = Instant::now();
        let mut budget = FrameBudget::new(now);
        allowed(&mut budget, header(kind::SETTINGS, 0, 6), now);
        assert!(budget.count(header(kind::SETTINGS, ACK, 0), || now));
        assert!(budget.count(header(WINDOW_UPDATE, 0, 4), || now));
    }

    #[test]
    fn requests_and_their_bodies_cost_nothing_and_empty_pieces_do() {
        let now = Instant::now();
        let mut budget = FrameBudget::new(now);
        allowed(&mut budget, header(PING, 0, 8), now);
        assert!(budget.count(header(kind::HEADERS, 0, 30), || now));
        assert!(budget.count(header(kind::DATA, 0, 1), || now));
        assert!(budget.count(header(kind::DATA, END_STREAM, 0), || now));
        assert!(!budget.count(header(kind::DATA, 0, 0), || now));
    }

    #[test]
    fn bytes_sent_earn_control_frames_but_no_settings() {
        let now = Instant::now();
        let mut budget = FrameBudget::new(now);
        allowed(&mut budget, header(PING, 0, 8), now);
        allowed(&mut budget, header(kind::SETTINGS, 0, 6), now);
        (0..10).for_each(|_| budget.earn(32));
        assert_eq!(allowed(&mut budget, header(PING, 0, 8), now), 5);
        assert_eq!(allowed(&mut budget, header(kind::SETTINGS, 0, 6), now), 0);
        // The acknowledgement of a PING earns less than the PING cost.
        allowed(&mut budget, header(PING, 0, 8), now);
        budget.earn(17);
        assert!(!budget.count(header(PING, 0, 8), || now));
    }
}
