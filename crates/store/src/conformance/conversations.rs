//! What every engine must do with conversations.

use crate::Store;
use crate::conversations::{Conversation, HeldConversation, Phase, StoredEntry};

const LEASE_MS: i64 = 60_000;

pub(super) async fn check(open: impl AsyncFn() -> Store) {
    keeps_entries_in_order(&open().await).await;
    lets_one_gateway_write_a_number(&open().await).await;
    gives_a_conversation_to_one_gateway(&open().await).await;
    lists_what_was_used_last_first(&open().await).await;
    adds_up_and_removes(&open().await).await;
}

fn conversation(id: &str, principal: &str) -> Conversation {
    Conversation {
        id: id.to_owned(),
        principal: principal.to_owned(),
        used_us: 1,
        last_number: 0,
        room_bytes: 0,
        phase: Phase::Over,
        gateway: String::new(),
        metadata: vec![0, 255],
    }
}

async fn create(store: &Store, id: &str, principal: &str) -> Conversation {
    let new = conversation(id, principal);
    store.create_conversation(&new).await.unwrap();
    new
}

/// Appends entries as a gateway, and expects that this succeeds.
async fn append(store: &Store, gateway: &str, before: &Conversation, phase: Phase, entries: &[&[u8]]) -> Conversation {
    let after = Conversation {
        last_number: before.last_number + entries.len() as i64,
        room_bytes: before.room_bytes + 100,
        used_us: before.used_us + 1,
        gateway: gateway.to_owned(),
        phase,
        ..before.clone()
    };
    let entries = entries.iter().map(|it| it.to_vec()).collect();
    assert_eq!(store.append_entries(&after, entries, LEASE_MS).await, Ok(true));
    after
}

fn entry(number: i64, entry: &[u8]) -> StoredEntry {
    StoredEntry { number, entry: entry.to_owned() }
}

async fn keeps_entries_in_order(store: &Store) {
    let new = create(store, "a", "A").await;
    assert_eq!(store.conversation("a").await, Ok(Some(new.clone())));
    assert_eq!(store.conversation("none").await, Ok(None));
    let first = append(store, "one", &new, Phase::Running, &[b"\x00one", b"two"]).await;
    let second = append(store, "one", &first, Phase::Over, &[b"three"]).await;
    assert_eq!(store.conversation("a").await, Ok(Some(second)));
    let all = vec![entry(1, b"\x00one"), entry(2, b"two"), entry(3, b"three")];
    assert_eq!(store.entries("a", 0, 1000).await, Ok(all.clone()));
    assert_eq!(store.entries("a", 1, 1000).await, Ok(all[1..].to_vec()));
    assert_eq!(store.entries("a", 0, 1).await, Ok(all[..1].to_vec()), "one that is too large is read alone");
    assert_eq!(store.entries("a", 0, 5).await, Ok(all[..2].to_vec()));
    assert_eq!(store.entries("a", 3, 1000).await, Ok(Vec::new()));
}

async fn lets_one_gateway_write_a_number(store: &Store) {
    let new = create(store, "a", "A").await;
    let appends = (0..8).map(|number| {
        let gateway = format!("gateway-{number}");
        let after = Conversation { last_number: 2, gateway: gateway.clone(), ..new.clone() };
        let (store, entry) = (store.clone(), gateway.into_bytes());
        tokio::spawn(async move { store.append_entries(&after, vec![entry.clone(), entry], LEASE_MS).await.unwrap() })
    });
    let mut written = Vec::new();
    for (number, task) in appends.collect::<Vec<_>>().into_iter().enumerate() {
        if task.await.unwrap() {
            written.push(format!("gateway-{number}").into_bytes());
        }
    }
    assert_eq!(written.len(), 1, "{written:?}");
    let entries = store.entries("a", 0, 1000).await.unwrap();
    assert_eq!(entries, [entry(1, &written[0]), entry(2, &written[0])]);
    let gap = Conversation { last_number: 9, ..new };
    assert_eq!(store.append_entries(&gap, vec![b"gap".to_vec()], LEASE_MS).await, Ok(false));
}

async fn gives_a_conversation_to_one_gateway(store: &Store) {
    let new = create(store, "a", "A").await;
    assert_eq!(store.claim_conversation("a", "one", LEASE_MS).await, Ok(false), "nothing is left to do");
    let running = append(store, "one", &new, Phase::Running, &[b"one"]).await;
    let held = |cancel_requested| vec![HeldConversation { id: "a".to_owned(), cancel_requested }];
    assert_eq!(store.renew_conversations("one", LEASE_MS).await, Ok(held(false)));
    assert_eq!(store.renew_conversations("two", LEASE_MS).await, Ok(Vec::new()));
    store.request_cancel("a").await.unwrap();
    assert_eq!(store.renew_conversations("one", LEASE_MS).await, Ok(held(true)));
    if store.is_shared() {
        assert_eq!(store.abandoned_conversations(10).await, Ok(Vec::new()));
        assert_eq!(store.claim_conversation("a", "two", LEASE_MS).await, Ok(false), "another gateway holds it");
        let stolen = Conversation { last_number: 2, gateway: "two".to_owned(), ..running.clone() };
        assert_eq!(store.append_entries(&stolen, vec![b"two".to_vec()], LEASE_MS).await, Ok(false));
        store.release_conversation("a", "two").await.unwrap();
        assert_eq!(store.claim_conversation("a", "two", LEASE_MS).await, Ok(false), "only its holder releases it");
    }
    store.release_conversation("a", "one").await.unwrap();
    assert_eq!(store.abandoned_conversations(10).await, Ok(vec![running.clone()]));
    assert_eq!(store.claim_conversation("a", "two", LEASE_MS).await, Ok(true));
    assert_eq!(store.renew_conversations("two", LEASE_MS).await, Ok(held(false)), "the one before was to cancel");
    if store.is_shared() {
        let late = Conversation { last_number: 2, ..running.clone() };
        assert_eq!(store.append_entries(&late, vec![b"late".to_vec()], LEASE_MS).await, Ok(false));
    }
    append(store, "two", &running, Phase::Over, &[b"end"]).await;
    assert_eq!(store.renew_conversations("two", LEASE_MS).await, Ok(Vec::new()));
    assert_eq!(store.abandoned_conversations(10).await, Ok(Vec::new()));
}

async fn lists_what_was_used_last_first(store: &Store) {
    for number in 0..7 {
        let principal = if number == 3 { "B" } else { "A" };
        let new = Conversation { used_us: number / 2, ..conversation(&format!("{number}"), principal) };
        store.create_conversation(&new).await.unwrap();
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let position = before.as_ref().map(|(used_us, id): &(i64, String)| (*used_us, id.as_str()));
        let page = store.conversations("A", position, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some((last.used_us, last.id.clone()));
        seen.extend(page.into_iter().map(|it| it.id));
    }
    assert_eq!(seen, ["6", "5", "4", "2", "1", "0"]);
    assert_eq!(store.all_conversations("").await.unwrap().len(), 7);
    assert_eq!(store.all_conversations("3").await.unwrap().len(), 3);
}

async fn adds_up_and_removes(store: &Store) {
    let empty = store.conversation_usage("A").await.unwrap();
    assert_eq!((empty.total_bytes, empty.total_count, empty.principals), (0, 0, 0));
    let (a, b) = (create(store, "a", "A").await, create(store, "b", "B").await);
    let a = append(store, "one", &a, Phase::Waiting, &[b"entry"]).await;
    let b = append(store, "one", &b, Phase::Running, &[b"entry"]).await;
    append(store, "one", &b, Phase::Running, &[b"entry"]).await;
    let usage = store.conversation_usage("A").await.unwrap();
    assert_eq!((usage.total_bytes, usage.own_bytes), (300, 100));
    assert_eq!((usage.total_count, usage.own_count, usage.principals), (2, 1, 2));

    assert_eq!(store.unused_conversations(100).await, Ok(vec![a.clone()]), "the other one runs");
    store.remove_unused(&[Conversation { used_us: 1, ..a.clone() }]).await.unwrap();
    assert_eq!(store.conversation("a").await, Ok(Some(a.clone())), "it was used in the meantime");
    store.remove_unused(std::slice::from_ref(&a)).await.unwrap();
    assert_eq!(store.remove_conversation("a").await, Ok(false));
    assert_eq!(store.remove_conversation("b").await, Ok(true));
    for id in ["a", "b"] {
        assert_eq!(store.conversation(id).await, Ok(None));
        assert_eq!(store.entries(id, 0, 1000).await, Ok(Vec::new()));
    }
}
