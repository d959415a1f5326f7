//! The attackers' side of the jail: what a call that means harm can do to the host, to its neighbours, and after its end.
//!
//! - [`probes`]: more than 800 small attempts, each compared with the table in `tests/fixtures/walls/expected.txt`
//! - the rest: attacks that take time, and what must be left of them: nothing
//! - [`contained`]: many of both in the container of a worker, for the tests of Compose
//! - [`stage`]: the four kinds of worker, the three kinds of call; [`remains`]: what may be left of a call
//!
//! They need root and a kernel that supports the whole jail; where either is missing, they are skipped.

mod attributes;
mod bombs;
pub(crate) mod contained;
mod counters;
mod cpu;
mod exits;
mod imports;
mod leases;
mod leftovers;
mod memory;
mod own_users;
mod probes;
mod remains;
mod siblings;
mod stage;
mod storm;
mod table;

/// One test for each kind of worker, of an attack that takes a [`stage::Worker`].
macro_rules! for_each_worker {
    ($($attack:ident)*) => {$(
        mod $attack {
            use crate::walls::stage::Worker;

            #[tokio::test]
            async fn as_root() {
                super::$attack(Worker::Root).await;
            }

            #[tokio::test]
            async fn as_root_whose_runs_have_users_of_their_own() {
                super::$attack(Worker::Own).await;
            }

            #[tokio::test]
            async fn as_root_that_passes_permissions() {
                super::$attack(Worker::Overriding).await;
            }

            #[tokio::test]
            async fn as_another_user() {
                super::$attack(Worker::Unprivileged).await;
            }
        }
    )*};
}
pub(crate) use for_each_worker;
