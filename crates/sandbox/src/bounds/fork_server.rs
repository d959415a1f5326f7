//! The limits of all of a fork server's processes together, in one control group.

use super::amounts::TreeBounds;

/// The limits of a fork server whose calls run concurrently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkServerBounds {
    /// The limits of each call, and the size of its temporary folder in memory.
    pub(crate) one: TreeBounds,
    pub(crate) temp_bytes: u64,
    /// The maximum number of concurrent calls.
    pub(crate) most: usize,
}

impl ForkServerBounds {
    /// Returns the sum of the calls' limits, capped at three quarters of the memory that is there.
    pub(crate) fn bounds(&self, there: u64) -> TreeBounds {
        let Self { one, most, .. } = self;
        let of_each = self.memory_of_each();
        // Add one for the fork server itself.
        let all = of_each.saturating_mul(*most as u64).saturating_add(one.memory_bytes);
        let memory_bytes = all.min(there / 4 * 3).max(of_each.saturating_add(one.memory_bytes));
        // Each call has an idle child, and a process 1 of its namespace.
        let processes = one.processes.saturating_add(2).saturating_mul(2 * *most as u64);
        // CPU time is measured separately for each call.
        TreeBounds { memory_bytes, processes, cpu_seconds: u64::MAX }
    }

    /// Returns how many calls can reach their own limits without exceeding the sum. At least one.
    pub(crate) fn fit(&self, there: u64) -> usize {
        let left = self.bounds(there).memory_bytes.saturating_sub(self.one.memory_bytes);
        let fit = left / self.memory_of_each().max(1);
        usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, self.most.max(1))
    }

    fn memory_of_each(&self) -> u64 {
        self.one.memory_bytes.saturating_add(self.temp_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;
    const ONE: TreeBounds = TreeBounds { memory_bytes: 512 * MIB, processes: 64, cpu_seconds: 300 };

    fn calls(one: TreeBounds, temp_bytes: u64) -> ForkServerBounds {
        ForkServerBounds { one, temp_bytes, most: 64 }
    }

    #[test]
    fn calls_together_may_have_what_each_may_and_leave_the_machine_some() {
        let memory = |there| calls(ONE, 64 * MIB).bounds(there * MIB).memory_bytes / MIB;
        assert_eq!(memory(1_000_000), 64 * (512 + 64) + 512);
        assert_eq!(memory(8000), 6000);
        assert_eq!(memory(1000), 512 + 64 + 512, "one call has its share whatever there is");
        assert!(calls(ONE, 0).bounds(u64::MAX).processes >= 64 * 64);
        let none = TreeBounds { memory_bytes: u64::MAX, processes: u64::MAX, cpu_seconds: u64::MAX };
        assert_eq!(calls(none, u64::MAX).bounds(4000).processes, u64::MAX);
    }

    #[test]
    fn as_many_fit_as_may_use_all_their_memory_at_once() {
        let gib = TreeBounds { memory_bytes: 1024 * MIB, ..ONE };
        for (there, fit) in [(1_000_000, 64), (24_000, 13), (8000, 3), (1000, 1)] {
            let it = calls(gib, 256 * MIB);
            assert_eq!(it.fit(there * MIB), fit, "{there} MiB");
            let all = fit as u64 * 1280 * MIB + 1024 * MIB;
            assert!(all <= it.bounds(there * MIB).memory_bytes, "{there} MiB");
        }
        let none = TreeBounds { memory_bytes: u64::MAX, processes: u64::MAX, cpu_seconds: u64::MAX };
        assert_eq!(calls(none, 0).fit(4000), 1);
    }
}
