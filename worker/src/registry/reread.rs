//! Decides when to read again files that another process locked with a lease.

/// The maximum wait between retries, in scans.
const MOST_SCANS: u32 = 64;

/// Counts the scans until the next retry. A file's stamp does not change while a lease exists, so a scan sees no change
/// when the lease ends. The retries are 1, 2, 4, ... scans apart, which limits the cost of a skill that takes one lease
/// after another.
#[derive(Debug, Default)]
pub(super) struct RereadBackoff {
    /// The number of scans until the next retry. `None` if no file had a lease.
    pub(super) left: Option<u32>,
    wait: u32,
}

impl RereadBackoff {
    /// Counts a scan. Returns whether to read the files even if none has changed.
    pub(super) fn is_due(&mut self) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }

    /// Records whether the last read found files with a lease.
    pub(super) fn note(&mut self, any: bool) {
        self.wait = if any { (2 * self.wait).clamp(1, MOST_SCANS) } else { 0 };
        self.left = any.then_some(self.wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_held_are_read_again_at_growing_intervals() {
        let mut held = RereadBackoff::default();
        assert!(!held.is_due());
        let mut waits = Vec::new();
        for _ in 0..9 {
            held.note(true);
            waits.push((1..).find(|_| held.is_due()).unwrap());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        held.note(false);
        assert!(!held.is_due());
        held.note(true);
        assert!(held.is_due());
    }
}
