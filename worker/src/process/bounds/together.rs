//! The limits of all processes of a fork server together, in one cgroup.

use super::amounts::Bounds;
use super::controller::Controller;

/// Processes that run beside each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Together {
    /// The limits of each, and the size of its temporary folder in memory.
    pub(crate) one: Bounds,
    pub(crate) temp_bytes: u64,
    /// How many there are, at most.
    pub(crate) most: usize,
}

impl Together {
    /// The sum of their limits, capped at three quarters of the memory that exists.
    pub(crate) fn bounds(&self, controller: &Controller) -> Bounds {
        self.bounds_of(memory_there(controller))
    }

    /// How many of them can reach their own limits without exceeding that. At least one.
    pub(crate) fn fit(&self, controller: &Controller) -> usize {
        self.fit_in(memory_there(controller))
    }

    fn bounds_of(&self, there: u64) -> Bounds {
        let Self { one, most, .. } = self;
        let of_one = self.of_one();
        // The fork server itself is one more.
        let all = of_one.saturating_mul(*most as u64).saturating_add(one.memory_bytes);
        let memory_bytes = all.min(there / 4 * 3).max(of_one.saturating_add(one.memory_bytes));
        // Idle children, and process 1 of each namespace.
        let processes = one.processes.saturating_add(2).saturating_mul(2 * *most as u64);
        // CPU time is measured for each call.
        Bounds { memory_bytes, processes, cpu_seconds: u64::MAX }
    }

    fn fit_in(&self, there: u64) -> usize {
        let left = self.bounds_of(there).memory_bytes.saturating_sub(self.one.memory_bytes);
        let fit = left / self.of_one().max(1);
        usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, self.most.max(1))
    }

    fn of_one(&self) -> u64 {
        self.one.memory_bytes.saturating_add(self.temp_bytes)
    }
}

/// The memory of the machine, or of the container.
fn memory_there(controller: &Controller) -> u64 {
    let machine = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "the numbers are narrower on some machines")]
    let machine = u64::from(machine.totalram).saturating_mul(machine.mem_unit.into());
    controller.memory_around().map_or(machine, |around| around.min(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;
    const ONE: Bounds = Bounds { memory_bytes: 512 * MIB, processes: 64, cpu_seconds: 300 };

    fn of(one: Bounds, temp_bytes: u64) -> Together {
        Together { one, temp_bytes, most: 64 }
    }

    #[test]
    fn calls_together_may_have_what_each_may_and_leave_the_machine_some() {
        let memory = |there| of(ONE, 64 * MIB).bounds_of(there * MIB).memory_bytes / MIB;
        assert_eq!(memory(1_000_000), 64 * (512 + 64) + 512);
        assert_eq!(memory(8000), 6000);
        assert_eq!(memory(1000), 512 + 64 + 512, "one call has its share whatever there is");
        assert!(of(ONE, 0).bounds_of(u64::MAX).processes >= 64 * 64);
        let none = Bounds { memory_bytes: u64::MAX, processes: u64::MAX, cpu_seconds: u64::MAX };
        assert_eq!(of(none, u64::MAX).bounds_of(4000).processes, u64::MAX);
    }

    #[test]
    fn as_many_fit_as_may_use_all_their_memory_at_once() {
        let gib = Bounds { memory_bytes: 1024 * MIB, ..ONE };
        for (there, fit) in [(1_000_000, 64), (24_000, 13), (8000, 3), (1000, 1)] {
            let it = of(gib, 256 * MIB);
            assert_eq!(it.fit_in(there * MIB), fit, "{there} MiB");
            let all = fit as u64 * 1280 * MIB + 1024 * MIB;
            assert!(all <= it.bounds_of(there * MIB).memory_bytes, "{there} MiB");
        }
        let none = Bounds { memory_bytes: u64::MAX, processes: u64::MAX, cpu_seconds: u64::MAX };
        assert_eq!(of(none, 0).fit_in(4000), 1);
    }
}
