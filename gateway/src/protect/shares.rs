//! Fair shares of something that runs out: a session may hold four times as much as is free. So one session that takes all it
//! can leaves a fifth to the others, and several that do share the rest evenly (Choudhury and Hahne, "Dynamic Queue Length
//! Thresholds for Shared-Memory Packet Switches"). Less than half of an even share is granted whatever the others hold.

/// How much a session may hold for each that is free.
const SHARE: usize = 4;

/// Whether a session may hold `mine`, with what it asks for, while `used` of `limit` are held and so many sessions hold any.
pub(super) fn is_fair(mine: usize, used: usize, limit: usize, sessions: usize) -> bool {
    2 * mine * sessions <= limit || mine <= SHARE * limit.saturating_sub(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of several sessions gets that take in turn whatever they may, when `held` is gone already.
    fn take_all(limit: usize, sessions: usize, held: usize) -> Vec<usize> {
        let mut mine = vec![0; sessions];
        for _ in 0..limit {
            for one in 0..sessions {
                let used = held + mine.iter().sum::<usize>();
                if used < limit && is_fair(mine[one] + 1, used, limit, sessions + usize::from(held > 0)) {
                    mine[one] += 1;
                }
            }
        }
        mine
    }

    #[test]
    fn one_session_leaves_a_fifth_and_several_share_evenly() {
        assert!((79..=81).contains(&take_all(100, 1, 0)[0]));
        assert!(take_all(100, 4, 0).iter().all(|mine| (22..=25).contains(mine)));
    }

    #[test]
    fn a_session_gets_its_share_of_what_another_left() {
        let second = take_all(1000, 1, 800)[0];
        assert!((160..=200).contains(&second), "{second}");
    }
}
