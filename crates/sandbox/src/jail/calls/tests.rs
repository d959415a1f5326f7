use std::collections::BTreeMap;

use super::profile::Group;
use super::*;
use crate::jail::numbers::{self as n, ABSENT, ALL};

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

fn groups() -> impl Iterator<Item = &'static Group> {
    let by_profile = allowed::BY_PROFILE.iter().map(|it| &it.group);
    allowed::ALWAYS.iter().chain(by_profile).chain(refused::NEVER.iter().map(|(_, group)| group))
}

#[test]
fn every_call_is_in_one_group_that_has_a_reason() {
    let here = |(_, x86_64, aarch64): &(&str, i64, i64)| if cfg!(target_arch = "x86_64") { *x86_64 } else { *aarch64 };
    let mut places: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for group in groups() {
        assert!(group.reason.ends_with('.') && !group.calls.is_empty(), "{group:?}");
        group.calls.iter().filter(|it| **it != ABSENT).for_each(|it| places.entry(*it).or_default().push(group.reason));
    }
    for call in ALL {
        let number = here(call);
        let found = places.remove(&number).unwrap_or_default();
        assert_eq!(found.len(), usize::from(number != ABSENT), "{}: {found:?}", call.0);
    }
    assert!(places.is_empty(), "{places:?}");
}

#[test]
fn a_call_that_is_in_no_group_does_not_exist() {
    for profile in profiles(&networks()) {
        let rules = rules(&profile);
        let named: Vec<_> = groups().flat_map(|it| it.calls).collect();
        for number in (0..1024).chain([0x4000_0000, i64::from(u32::MAX)]).filter(|it| !named.contains(&it)) {
            assert_eq!(rules.run(number as u32, [0; 4]), Some(ENOSYS), "{number}: {profile:?}");
        }
    }
}

#[test]
fn a_child_of_a_fork_server_is_held_to_the_list_of_a_call() {
    let added = addition();
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
    let run = |call: i64, arguments| rules.run(u32::try_from(call).unwrap(), arguments);
    // User, process ids, network. A separate table of files (0x400) is no namespace.
    for made in [0x1000_0000, 0x2000_0000, 0x4000_0000, 0x7000_0000, 0x400] {
        assert_eq!((run(n::UNSHARE, [made, 0, 0, 0]), run(n::CLONE, [made, 0, 0, 0])), (None, None), "{made:x}");
    }
    // Mounts, control groups, host name and IPC, and mounts together with users.
    for refused in [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1002_0000] {
        assert_eq!((run(n::UNSHARE, [refused, 0, 0, 0]), run(n::CLONE, [refused, 0, 0, 0])), (Some(1), Some(1)));
    }
    assert_eq!(run(n::UNSHARE, [0x80, 0, 0, 0]), Some(1), "clocks");
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
            assert_eq!(run(n::SOCKET, [family, kind | flags, protocol, 0]), None, "{made:?}");
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
        assert_eq!(run(n::SOCKET, [family, kind, protocol, 0]), Some(13), "{refused:?}");
    }
}

#[test]
fn arguments_that_would_escape_what_is_counted_are_refused_to_all() {
    let (clone_parent, sigchld, hugetlb, private_anonymous) = (0x8000, 17, 0x4_0000, 0x22);
    for profile in profiles(&networks()) {
        let rules = rules(&profile);
        let run = |call: i64, arguments| u32::try_from(call).map_or(None, |call| rules.run(call, arguments));
        assert_eq!(run(n::CLONE, [sigchld, 0, 0, 0]), None, "{profile:?}");
        for flags in [clone_parent, clone_parent | sigchld, clone_parent | 0x1_0f00] {
            assert_eq!(run(n::CLONE, [flags, 0, 0, 0]), Some(1), "{flags:x}: {profile:?}");
        }
        assert_eq!(run(n::MMAP, [0, 4096, 3, private_anonymous]), None);
        assert_eq!(run(n::MMAP, [0, 4096, 3, private_anonymous | hugetlb]), Some(12), "{profile:?}");
        let of_looked_at = |error| if profile.counted { None } else { Some(error) };
        for call in [n::VMSPLICE, n::SPLICE, n::TEE, n::SENDFILE] {
            assert_eq!(run(call, [0; 4]), of_looked_at(22), "{call}: {profile:?}");
        }
        assert_eq!(run(n::SETSOCKOPT, [5, 1, 60, 0]), of_looked_at(95), "{profile:?}");
        assert_eq!(run(n::MEMFD_CREATE, [0, 4, 0, 0]), if profile.counted { Some(22) } else { Some(ENOSYS) });
        assert_eq!(run(n::IO_SETUP, [1, 0, 0, 0]), Some(ENOSYS), "{profile:?}");
        let rename = |flags| rules.run(n::RENAMEAT2 as u32, [0, 0, 0, 0, flags]);
        assert_eq!([0, 1, 2, 4, 5].map(rename), [None, None, None, Some(1), Some(1)], "{profile:?}");
    }
}
