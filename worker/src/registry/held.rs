//! When files that another process held are read again.

/// The longest wait, in scans.
const MOST_SCANS: u32 = 64;

/// Files keep their stamps while a lease holds them, so that no scan sees a change when it ends. The next reads are 1, 2, 4,
/// ... scans later: a skill that takes lease after lease costs the worker no more than that.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Scans until the next read; none if no file was held.
    left: Option<u32>,
    wait: u32,
}

impl Held {
    /// Counts a scan. Whether files are to be read although none of them changed.
    pub(super) fn is_due(&mut self) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }

    /// After a read: whether files were held.
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
        let mut held = Held::default();
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
