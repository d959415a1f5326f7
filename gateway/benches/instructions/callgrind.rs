//! Runs a case under callgrind, in a separate process.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::CASE;
use super::cases::Case;

/// The C library copies and compares with what the processor has, so counts would differ between machines. Here it uses what
/// every processor has.
const PLAIN: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-SSSE3,\
                     -SSE4_1,-SSE4_2,-BMI2,-MOVBE,-LZCNT,-RTM";

/// Instructions of one call of the case.
pub(super) fn count(case: &Case) -> u64 {
    let profile = profile(case.name);
    fs::create_dir_all(profile.parent().unwrap()).unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        // The first turns counting on, the second turns it off within the first.
        .args(["--toggle-collect=*counted_calls*", "--toggle-collect=*left_uncounted*"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "instructions::one_case", "--ignored", "--test-threads=1", "--quiet"])
        .env("GLIBC_TUNABLES", PLAIN)
        .env(CASE, case.name)
        .output()
        .unwrap_or_else(|error| panic!("valgrind does not start ({error}): apt-get install valgrind"));
    let printed = || [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{} failed: {}", case.name, String::from_utf8_lossy(&printed()));
    let text = fs::read_to_string(&profile).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse::<u64>().ok());
    let total = total.filter(|it| *it > 0).unwrap_or_else(|| panic!("nothing was counted in {}", profile.display()));
    total / u64::from(case.times)
}

/// The profile of a case, for `callgrind_annotate`: in `target/instructions`.
pub(super) fn profile(case: &str) -> PathBuf {
    // target/<profile>/deps/<binary>
    env::current_exe().unwrap().ancestors().nth(3).unwrap().join("instructions").join(format!("{case}.out"))
}
