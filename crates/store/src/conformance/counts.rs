//! Checks of what gateways count together: rates and circuits.

#![allow(clippy::unwrap_used, reason = "for tests")]

use futures_util::future::join_all;

use crate::Store;
use crate::circuits::{CircuitCalls, NewCircuitCalls, SharedCircuit, SharedCircuitState};
use crate::rates::RateCharge;

const SECOND_US: i64 = 1_000_000;
const WINDOW_MS: i64 = 600_000;

pub(super) async fn check_all(store: &Store) {
    charges_tokens_of_all_gateways(store).await;
    one_gateway_changes_a_circuit(store).await;
    a_probe_is_one_gateways_until_its_time_has_passed(store).await;
    counts_calls_of_other_gateways_in_an_epoch(store).await;
}

async fn charges_tokens_of_all_gateways(store: &Store) {
    let now = store.now_us();
    let charge = |principal: &str, since_us, debt_us, full_at_us| {
        let charge = RateCharge { principal: principal.to_owned(), since_us, debt_us, full_at_us };
        async move { store.charge_rates(&[charge]).await.unwrap()[0] }
    };
    assert_eq!(charge("a", now, SECOND_US, now + SECOND_US).await, now + SECOND_US);
    assert_eq!(charge("a", now, SECOND_US, now + SECOND_US).await, now + 2 * SECOND_US, "another gateway");
    assert_eq!(charge("a", now + 5 * SECOND_US, SECOND_US, 0).await, now + 6 * SECOND_US, "it was full in between");
    assert_eq!(charge("a", now, SECOND_US, now + 9 * SECOND_US).await, now + 9 * SECOND_US, "the gateway knows more");
    let both = ["c", "b"].map(|it| RateCharge {
        principal: it.to_owned(),
        since_us: 0,
        debt_us: 1,
        full_at_us: it.len() as i64,
    });
    assert_eq!(store.charge_rates(&both).await, Ok(vec![1, 1]));
    store.remove_unused_rates().await.unwrap();
    assert_eq!(charge("b", 0, 1, 0).await, 2, "it is kept for an hour");
    let many = (0..20).map(|_| charge("d", now, SECOND_US, 0));
    join_all(many).await;
    assert_eq!(
        charge("d", now, 0, 0).await,
        now + 19 * SECOND_US,
        "none is lost; the first one is what its gateway says"
    );
}

fn circuit(name: &str, state: SharedCircuitState, until_ms: i64, gateway: &str) -> SharedCircuit {
    SharedCircuit { name: name.to_owned(), epoch: 0, state, until_ms, gateway: gateway.to_owned() }
}

async fn find(store: &Store, name: &str) -> Option<SharedCircuit> {
    store.circuits().await.unwrap().into_iter().find(|it| it.name == name)
}

async fn one_gateway_changes_a_circuit(store: &Store) {
    let open = circuit("skill", SharedCircuitState::Open, store.now_ms() + WINDOW_MS, "");
    let changes = join_all((0..8).map(|_| store.change_circuit(&open, 0, false))).await;
    let mut changed: Vec<_> = changes.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(changed.len(), 1);
    let first = changed.pop().unwrap();
    assert_eq!(find(store, "skill").await.unwrap(), first);
    let closed = circuit("skill", SharedCircuitState::Closed, 0, "");
    assert_eq!(store.change_circuit(&closed, first.epoch - 1, false).await, Ok(None), "an older epoch");
    let second = store.change_circuit(&closed, first.epoch, false).await.unwrap().unwrap();
    assert!(second.epoch > first.epoch);
    store.remove_old_circuits().await.unwrap();
    assert_eq!(find(store, "skill").await.unwrap(), second, "it closed less than an hour ago");
}

async fn a_probe_is_one_gateways_until_its_time_has_passed(store: &Store) {
    let later = store.now_ms() + WINDOW_MS;
    let probe = |gateway: &str, until_ms| circuit("probed", SharedCircuitState::HalfOpen, until_ms, gateway);
    let open = circuit("probed", SharedCircuitState::Open, later, "");
    let open = store.change_circuit(&open, 0, false).await.unwrap().unwrap();
    assert_eq!(store.change_circuit(&probe("a", later), open.epoch, true).await, Ok(None), "it is open");
    let over = circuit("probed", SharedCircuitState::Open, store.now_ms(), "");
    let over = store.change_circuit(&over, open.epoch, false).await.unwrap().unwrap();
    let first = store.change_circuit(&probe("a", store.now_ms() - 1), over.epoch, true).await.unwrap().unwrap();
    assert_eq!(store.renew_probe("probed", over.epoch, later).await, Ok(false));
    assert_eq!(store.renew_probe("probed", first.epoch, later).await, Ok(true));
    assert_eq!(store.change_circuit(&probe("b", later), first.epoch, true).await, Ok(None), "it is another gateway's");
    assert_eq!(store.renew_probe("probed", first.epoch, store.now_ms() - 1).await, Ok(true));
    let second = store.change_circuit(&probe("b", later), first.epoch, true).await.unwrap().unwrap();
    assert_eq!(find(store, "probed").await.unwrap(), second);
}

async fn counts_calls_of_other_gateways_in_an_epoch(store: &Store) {
    let calls = |epoch, calls, failures| CircuitCalls { name: "counted".to_owned(), epoch, calls, failures };
    let add = async |gateway, added: CircuitCalls, window_ms| {
        store.add_circuit_calls(gateway, &[NewCircuitCalls { calls: added, window_ms }]).await.unwrap();
    };
    for _ in 0..2 {
        add("a", calls(7, 3, 1), WINDOW_MS).await;
    }
    add("b", calls(7, 10, 0), WINDOW_MS).await;
    add("b", calls(6, 5, 5), WINDOW_MS).await;
    add("c", calls(7, 9, 9), -1).await;
    let elsewhere = async |gateway| {
        let mut found = store.circuit_calls_elsewhere(gateway).await.unwrap();
        found.sort_by_key(|it| it.epoch);
        found
    };
    assert_eq!(elsewhere("a").await, [calls(6, 5, 5), calls(7, 10, 0)]);
    assert_eq!(elsewhere("b").await, [calls(7, 6, 2)], "its own don't count, nor those from before the window");
    store.remove_old_circuits().await.unwrap();
    assert_eq!(elsewhere("d").await, [calls(6, 5, 5), calls(7, 16, 2)]);
}
