//! Floods of control frames.

use std::time::Duration;

use openskill_tests::alone::alone;
use openskill_tests::own_thread::on_own_thread;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use serde_json::json;

use super::neighbour::{Fared, call_for, is_well};
use super::raw::{DATA, ENHANCE_YOUR_CALM, PING, PRIORITY, Raw, SETTINGS, WINDOW_UPDATE, frame, initial_window};

/// How long an attack lasts.
const ATTACK: Duration = Duration::from_secs(4);

/// How many calls an attacker begins, and how soon it comes back after its connection was ended.
const CALLS: u32 = 1000;
const AGAIN: Duration = Duration::from_secs(1);

/// How often a measurement that another process may have spoilt is made again.
const ATTEMPTS: usize = 3;

#[tokio::test]
async fn a_client_that_floods_with_control_frames_is_told_to_calm_down() {
    let system = Setup::up().start().await;
    let window = [initial_window(0), initial_window(u32::MAX >> 1)].concat();
    for (name, frames) in [
        ("SETTINGS", window),
        ("empty SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 0])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("empty DATA", frame(DATA, 0, 1, &[])),
        ("an unknown type", frame(0xbe, 0, 0, &[1, 2, 3])),
    ] {
        let mut raw = Raw::connect(system.address).await;
        assert!(raw.begin_calls(4).await);
        // Read beside, or the answers to the frames would stop the gateway from reading.
        let flooded = tokio::time::timeout(PATIENCE, async {
            assert!(raw.send(&frames.repeat(5000)).await, "{name}");
            raw.goodbye().await
        });
        assert_eq!(flooded.await.expect(name), Some(ENHANCE_YOUR_CALM), "{name}");
    }
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn a_client_that_pings_and_changes_its_window_now_and_then_is_served() {
    let system = Setup::up().start().await;
    let mut raw = Raw::connect(system.address).await;
    for window in [0, 65_535, 1 << 20, 1 << 24] {
        assert!(raw.send(&initial_window(window)).await);
        assert!(raw.send(&frame(PING, 0, 0, &[7; 8]).repeat(100)).await);
    }
    let end = super::raw::request(1, &[(":method", "GET"), (":scheme", "http"), (":path", "/healthz")], true);
    assert!(raw.send(&end).await);
    // A GOAWAY of the client's own: the gateway answers what it has, and closes.
    assert!(raw.send(&frame(super::raw::GOAWAY, 0, 0, &[0; 8])).await);
    let code = tokio::time::timeout(PATIENCE, raw.goodbye()).await.expect("the connection ends");
    assert!(code.is_none_or(|code| code == 0), "{code:?}");
}

#[tokio::test]
async fn floods_of_settings_delay_no_neighbour() {
    let _alone = alone();
    let system = Setup::up().start().await;
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let quiet = call_for(&system, ATTACK / 2).await;
        let mut beside = Vec::new();
        for connections in [1, 4] {
            beside.push(beside_a_flood(&system, connections).await);
        }
        let all_are_well = beside.iter().all(|it| is_well(&quiet, it));
        seen.push((quiet, beside));
        if all_are_well {
            return println!("{seen:?}");
        }
    }
    panic!("the neighbour suffers: {seen:?}");
}

/// How a neighbour fares beside connections that change their initial window without end, and come back when they are ended.
async fn beside_a_flood(system: &System, connections: usize) -> Fared {
    let address = system.address;
    let attack = on_own_thread(move || async move {
        let one = async || {
            let window = [initial_window(0), initial_window(u32::MAX >> 1)].concat().repeat(200);
            let begun = std::time::Instant::now();
            while begun.elapsed() < ATTACK {
                let mut raw = Raw::connect(address).await;
                raw.begin_calls(CALLS).await;
                raw.flood(&window, ATTACK.saturating_sub(begun.elapsed())).await;
                tokio::time::sleep(AGAIN).await;
            }
        };
        futures_util::future::join_all((0..connections).map(|_| one())).await;
        Ok(())
    });
    let (attack, fared) = tokio::join!(attack, call_for(system, ATTACK));
    attack.unwrap();
    fared
}
