//! Operating system metrics of this process: memory, descriptors and CPU time, with the standard Prometheus names.

use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

use crate::metrics::snapshot::Snapshot;
use crate::metrics::table;

/// The maximum number of descriptors that are counted, so that a scrape stays fast.
const MOST_DESCRIPTORS: usize = 100_000;

/// Adds the metrics of this process. Reading `/proc` takes tens of microseconds, plus about one for each open
/// descriptor.
pub fn measure(snapshot: &mut Snapshot) {
    let Some(stat) = Stat::read() else { return };
    let (ticks, page) = (rustix::param::clock_ticks_per_second() as f64, rustix::param::page_size() as f64);
    snapshot.number(&table::PROCESS_CPU, &[], stat.cpu_ticks as f64 / ticks);
    snapshot.number(&table::PROCESS_RESIDENT, &[], stat.resident_pages as f64 * page);
    snapshot.number(&table::PROCESS_VIRTUAL, &[], stat.virtual_bytes as f64);
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // Exclude the descriptor of the directory itself.
        snapshot.number(&table::PROCESS_OPEN_FDS, &[], open.take(MOST_DESCRIPTORS).count().saturating_sub(1) as f64);
    }
    let most = getrlimit(Resource::Nofile).current.map_or(f64::INFINITY, |it| it as f64);
    snapshot.number(&table::PROCESS_MAX_FDS, &[], most);
    snapshot.number(&table::PROCESS_THREADS, &[], stat.threads as f64);
    if let Some(start_time) = stat.start_time() {
        snapshot.number(&table::PROCESS_START, &[], start_time);
    }
}

/// Returns the start time of this process, in seconds since 1970. `None` without `/proc`.
pub fn start_time() -> Option<f64> {
    Stat::read()?.start_time()
}

/// Adds the version of this binary. `process` is the process type.
pub fn build(snapshot: &mut Snapshot, version: &str, process: &str) {
    snapshot.number(&table::BUILD, &[version, process], 1.0);
}

/// The fields of `/proc/self/stat` that are used.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    started_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn start_time(&self) -> Option<f64> {
        Some(boot_time()? + self.started_ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Parses the file. The program name, in parentheses, may contain any character, so fields are counted from
    /// its end.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // `man proc_pid_stat` numbers the process id 1 and the state, the first field here, 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            started_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Returns the boot time, in seconds since 1970.
fn boot_time() -> Option<f64> {
    static BOOT_TIME: OnceLock<Option<f64>> = OnceLock::new();
    *BOOT_TIME.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::snapshot::Value;

    #[test]
    fn the_program_may_have_any_name() {
        let text = "42 (a ) 1 (b)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23";
        let stat = Stat { cpu_ticks: 11 + 12, threads: 17, started_ticks: 19, virtual_bytes: 20, resident_pages: 21 };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("42 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_has_memory_descriptors_and_a_start_in_the_past() {
        let mut snapshot = Snapshot::default();
        measure(&mut snapshot);
        let number = |name: &str| {
            let family = snapshot.families().iter().find(|it| it.metric.name == name).unwrap();
            let Value::Number(number) = family.series[0].value else { panic!("{name} is a number") };
            number
        };
        assert!(number("process_resident_memory_bytes") > 100_000.0);
        assert!(number("process_open_fds") >= 3.0 && number("process_threads") >= 1.0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - number("process_start_time_seconds");
        assert!((-5.0..86_400.0).contains(&age), "{age}");
    }
}
