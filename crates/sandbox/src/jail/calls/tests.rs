use std::collections::BTreeMap;

use super::groups::{Group, read};
use super::*;
use crate::jail::program::{ABSENT, UNREVIEWED};
use crate::require::{Need, skip};

/// Names in the generic header that aarch64 does not use: calls of 32-bit architectures, and names that are not
/// calls.
const ELSEWHERE: [&str; 3] = ["arch_specific_syscall", "syscalls", "sync_file_range2"];

const ENOSYS: u32 = Refusal::Enosys as u32;

fn groups() -> Vec<Group<'static>> {
    read().unwrap()
}

/// Returns the name of each call, with its numbers on x86_64 and aarch64.
fn all() -> BTreeMap<&'static str, [i64; 2]> {
    groups().into_iter().flat_map(|it| it.calls).collect()
}

/// Returns the number of each call on this architecture.
fn numbers() -> HashMap<&'static str, i64> {
    groups().iter().flat_map(Group::numbers).collect()
}

fn rules(profile: &Profile<'_>) -> Rules {
    super::rules(profile).unwrap()
}

fn networks() -> [Network; 3] {
    [Network::None, Network::Connect(vec![443]), Network::Full]
}

/// Returns all profiles that a process may have.
fn profiles(networks: &[Network]) -> Vec<Profile<'_>> {
    let mut profiles = Vec::new();
    for network in networks {
        for owner in [FileOwner::Itself, FileOwner::Overriding, FileOwner::Worker] {
            for counted in [false, true] {
                profiles.push(Profile { network, owner, makes: Makes::Nothing, counted });
            }
        }
        profiles.push(fork_server(network));
        profiles.push(Profile { makes: Makes::Sandbox, ..fork_server(network) });
    }
    profiles
}

#[test]
fn every_call_is_in_one_group_that_has_a_reason() {
    let groups = groups();
    for group in &groups {
        assert!(group.reason.ends_with('.') && !group.calls.is_empty(), "{group:?}");
    }
    let listed: usize = groups.iter().map(|it| it.calls.len()).sum();
    assert_eq!((listed, all().len()), (383, 383));
}

#[test]
fn a_call_that_is_in_no_group_does_not_exist() {
    for profile in profiles(&networks()) {
        let rules = rules(&profile);
        let named: Vec<_> = numbers().into_values().collect();
        for number in (0..1024).chain([0x4000_0000, i64::from(u32::MAX)]).filter(|it| !named.contains(it)) {
            assert_eq!(rules.run(number as u32, [0; 4]), Some(ENOSYS), "{number}: {profile:?}");
        }
    }
}

#[test]
fn a_child_of_a_fork_server_is_held_to_the_list_of_a_call() {
    let added = addition().unwrap();
    for network in networks() {
        let server = fork_server(&network);
        let (call, server) = (rules(&Profile { makes: Makes::Nothing, ..server }), rules(&server));
        for number in 0..1024 {
            let both = server.run(number, [0; 4]).or_else(|| added.run(number, [0; 4]));
            assert_eq!(both, call.run(number, [0; 4]), "{number}: {network:?}");
        }
    }
    let refused: Vec<u32> = (0..470).filter(|number| added.run(*number, [0; 4]).is_some()).collect();
    assert_eq!(refused.len(), 3, "mounts and namespaces: {refused:?}");
}

#[test]
fn every_kind_of_filter_compiles_within_the_kernels_bound() {
    for profile in profiles(&networks()) {
        let filter = Filter::from_rules(&rules(&profile)).unwrap();
        assert!((100..4096).contains(&filter.0.len()), "{profile:?}: {}", filter.0.len());
    }
    assert!(Filter::for_fork().unwrap().0.len() < 64);
}

#[test]
fn a_browser_makes_the_namespaces_and_sockets_of_its_sandbox_and_no_others() {
    let network = Network::None;
    let rules = rules(&Profile { makes: Makes::Sandbox, ..fork_server(&network) });
    let numbers = numbers();
    let run = |call: &str, arguments| rules.run(u32::try_from(numbers[call]).unwrap(), arguments);
    // User, process ids, network. A separate table of files (0x400) is no namespace.
    for made in [0x1000_0000, 0x2000_0000, 0x4000_0000, 0x7000_0000, 0x400] {
        assert_eq!((run("unshare", [made, 0, 0, 0]), run("clone", [made, 0, 0, 0])), (None, None), "{made:x}");
    }
    // Mounts, control groups, host name and IPC, and mounts together with users.
    for refused in [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1002_0000] {
        assert_eq!((run("unshare", [refused, 0, 0, 0]), run("clone", [refused, 0, 0, 0])), (Some(1), Some(1)));
    }
    assert_eq!(run("unshare", [0x80, 0, 0, 0]), Some(1), "clocks");
    let (unix, inet, inet6, netlink) = (1, 2, 10, 16);
    let (stream, datagram, raw, packets) = (1, 2, 3, 5);
    for made in [
        [unix, stream, 0],
        [unix, packets, 0],
        [inet, stream, 0],
        [inet6, stream, 6],
        [inet, datagram, 17],
        [inet6, datagram, 0],
    ] {
        let [family, kind, protocol] = made;
        // Also with SOCK_CLOEXEC and SOCK_NONBLOCK.
        for flags in [0, 0o2_004_000] {
            assert_eq!(run("socket", [family, kind | flags, protocol, 0]), None, "{made:?}");
        }
    }
    for refused in [
        [inet, raw, 1],
        [inet, stream, 132],
        [inet, stream, 262],
        [inet6, datagram, 136],
        [inet, packets, 0],
        [inet, packets, 132],
        [netlink, datagram, 0],
        [netlink, raw, 0],
    ] {
        let [family, kind, protocol] = refused;
        assert_eq!(run("socket", [family, kind, protocol, 0]), Some(13), "{refused:?}");
    }
}

#[test]
fn arguments_that_would_escape_what_is_counted_are_refused_to_all() {
    let numbers = numbers();
    let (clone_parent, sigchld, hugetlb, private_anonymous) = (0x8000, 17, 0x4_0000, 0x22);
    for profile in profiles(&networks()) {
        let rules = rules(&profile);
        let run = |call: &str, arguments| u32::try_from(numbers[call]).map_or(None, |call| rules.run(call, arguments));
        assert_eq!(run("clone", [sigchld, 0, 0, 0]), None, "{profile:?}");
        for flags in [clone_parent, clone_parent | sigchld, clone_parent | 0x1_0f00] {
            assert_eq!(run("clone", [flags, 0, 0, 0]), Some(1), "{flags:x}: {profile:?}");
        }
        assert_eq!(run("mmap", [0, 4096, 3, private_anonymous]), None);
        assert_eq!(run("mmap", [0, 4096, 3, private_anonymous | hugetlb]), Some(12), "{profile:?}");
        let of_looked_at = |error| if profile.counted { None } else { Some(error) };
        for call in ["vmsplice", "splice", "tee", "sendfile"] {
            assert_eq!(run(call, [0; 4]), of_looked_at(22), "{call}: {profile:?}");
        }
        assert_eq!(run("setsockopt", [5, 1, 60, 0]), of_looked_at(95), "{profile:?}");
        assert_eq!(run("memfd_create", [0, 4, 0, 0]), if profile.counted { Some(22) } else { Some(ENOSYS) });
        assert_eq!(run("io_setup", [1, 0, 0, 0]), Some(ENOSYS), "{profile:?}");
        let rename = |flags| rules.run(numbers["renameat2"] as u32, [0, 0, 0, 0, flags]);
        assert_eq!([0, 1, 2, 4, 5].map(rename), [None, None, None, Some(1), Some(1)], "{profile:?}");
    }
}

/// Parses the calls that a system header defines, by name and number. Removes `prefixes` from the names.
fn in_header(text: &str, prefixes: &[&str]) -> Vec<(String, i64)> {
    let call = |line: &str| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let name = words.next()?;
        let name = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        Some((name.replace("fstatat", "newfstatat").replace("newnew", "new"), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(call).collect()
}

fn header(path: &str) -> String {
    let missing = |_: &std::io::Error| skip(Need::Kernel, &format!("there is no {path}"));
    std::fs::read_to_string(path).inspect_err(missing).unwrap_or_default()
}

#[test]
fn every_call_of_the_systems_headers_has_its_number_here() {
    let x86_64 = in_header(&header("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), &["__NR_"]);
    let generic = in_header(&header("/usr/include/asm-generic/unistd.h"), &["__NR_", "__NR3264_"]);
    // These calls have 64-bit times and exist only on 32-bit architectures.
    let aarch64 = generic.into_iter().filter(|it| !(403..424).contains(&it.1) && !ELSEWHERE.contains(&&*it.0));
    let all = all();
    let known = |name: &str| all.get(name.trim_start_matches('_')).copied().unwrap_or([ABSENT; 2]);
    for (name, number) in x86_64.into_iter().filter(|it| it.1 < i64::from(UNREVIEWED)) {
        assert_eq!(known(&name)[0], number, "{name} of x86_64");
    }
    for (name, number) in aarch64.filter(|it| it.1 < i64::from(UNREVIEWED)) {
        assert_eq!(known(&name)[1], number, "{name} of aarch64");
    }
}

#[test]
fn no_number_is_that_of_two_calls_or_of_a_call_that_was_not_reviewed() {
    for architecture in [0, 1] {
        let mut numbers: Vec<_> = all().into_values().map(|it| it[architecture]).filter(|it| *it != ABSENT).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
        assert!(numbers.iter().all(|it| (0..i64::from(UNREVIEWED)).contains(it)));
    }
}
