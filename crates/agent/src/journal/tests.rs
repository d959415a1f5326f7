#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use openskill_model::ModelCall;
use openskill_proto::v1::{ConversationState, ErrorCode};
use openskill_store::Location;

use super::space::Space;
use super::{Journal, WatchEvent};
use crate::entry::{Called, Entry, Outcome, Replied, Stamped, Started, TurnEnded};
use crate::error::{AgentError, Bound};

impl Journal {
    /// Opens the conversations at a location.
    pub(crate) async fn open_at(location: Location) -> Result<Self, AgentError> {
        let journal = Self::new(location, None);
        journal.open().await?;
        Ok(journal)
    }

    async fn open_within(location: Location, bytes: usize, conversations: usize) -> Self {
        let journal = Self::within(location, None, Space::with_limits(bytes, conversations));
        journal.open().await.unwrap();
        journal
    }

    /// Appends entries after whatever is there.
    pub(crate) async fn append(&self, id: &str, entries: Vec<Entry>) -> Result<Vec<Stamped>, AgentError> {
        let last = self.last_number(id).await?.ok_or(AgentError::NoConversation)?;
        self.append_at(id, last + 1, entries).await
    }

    /// Returns at most `limit` entries after the number `after`.
    pub(crate) async fn read(&self, id: &str, after: u64, limit: usize) -> Result<Vec<Stamped>, AgentError> {
        let later = move |all: Vec<Stamped>| all.into_iter().filter(|it| it.number > after).take(limit).collect();
        self.fold(id, later).await
    }
}

const FILE: &str = "conversations.sqlite";

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("openskill-journal-{:x}", rand::random::<u64>())))
    }

    fn location(&self) -> Location {
        Location::File(self.0.join(FILE))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn memory() -> Journal {
    Journal::open_at(Location::Memory).await.unwrap()
}

fn started(text: &str) -> Entry {
    Entry::Started(Started { text: text.to_owned(), ..Started::default() })
}

fn replied(text: &str) -> Entry {
    Entry::Replied(Replied { text: text.to_owned(), ..Replied::default() })
}

#[tokio::test]
async fn entries_are_numbered_read_and_shown_in_order() {
    let journal = memory().await;
    let id = journal.create("ada").await.unwrap();
    let mut shown = journal.watch(&id);
    for n in 0..120 {
        journal.append(&id, vec![replied(&n.to_string()), replied("pair")]).await.unwrap();
    }
    assert_eq!(journal.append_at(&id, 240, vec![replied("late")]).await, Err(AgentError::Elsewhere));
    let entries = journal.read(&id, 0, 1000).await.unwrap();
    assert!(entries.iter().map(|it| it.number).eq(1..=240));
    assert!(entries.chunks(2).all(|pair| pair[1].entry == replied("pair")));
    for number in 1..=240 {
        let WatchEvent::Event(event) = shown.recv().await.unwrap() else { panic!("it is small") };
        assert_eq!(event.number, number);
    }
    let page = journal.read(&id, 10, 5).await.unwrap();
    assert!(page.iter().map(|it| it.number).eq(11..=15));
}

#[tokio::test]
async fn conversations_survive_a_restart_and_are_private() {
    let folder = TempFolder::new();
    let journal = Journal::open_at(folder.location()).await.unwrap();
    let id = journal.create("ada").await.unwrap();
    journal.append(&id, vec![started("\n  Hello there\nmore")]).await.unwrap();
    let busy = Journal::open_at(folder.location()).await.unwrap_err();
    assert!(busy.to_string().contains("another process has it open"), "{busy}");
    drop(journal);
    let journal = Journal::open_at(folder.location()).await.unwrap();
    assert_eq!(journal.read(&id, 0, 10).await.unwrap()[0].entry, started("\n  Hello there\nmore"));
    assert_eq!(journal.abandoned().await.unwrap()[0].id, id);
    let conversation = journal.get("ada", &id).await.unwrap();
    assert_eq!((conversation.title.as_str(), conversation.state()), ("Hello there", ConversationState::Running));
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.0.clone()), mode(folder.0.join(FILE))), (0o700, 0o600));
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = TempFolder::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join(FILE);
    std::fs::write(&file, "my diary, which is no store\n".repeat(500)).unwrap();
    let error = Journal::open_at(folder.location()).await.unwrap_err().to_string();
    assert!(error.contains("move it away") && error.contains(FILE), "{error}");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("my diary"));
}

#[tokio::test]
async fn a_file_of_an_earlier_release_is_refused_by_its_name() {
    let folder = TempFolder::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join(FILE), b"redb\x1a\x0a\xa9\x0d\x0a and pages").unwrap();
    let error = Journal::open_at(folder.location()).await.unwrap_err().to_string();
    assert!(error.contains("an earlier openskill wrote it") && error.contains(FILE), "{error}");
}

#[tokio::test]
async fn a_principal_sees_its_own_conversations_the_one_used_last_first() {
    let journal = memory().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let id = journal.create("ada").await.unwrap();
        journal.append(&id, vec![started(&format!("question {n}"))]).await.unwrap();
        ids.push(id);
    }
    let other = journal.create("bob").await.unwrap();
    journal.append(&ids[0], vec![Entry::Ended(TurnEnded::default())]).await.unwrap();
    let (mut titles, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = journal.list("ada", 2, &cursor).await.unwrap();
        titles.extend(page.conversations.into_iter().map(|it| it.title));
        cursor = page.next_cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(titles, ["question 0", "question 4", "question 3", "question 2", "question 1"]);
    assert_eq!(journal.get("ada", &other).await.unwrap_err(), AgentError::NoConversation);
    assert_eq!(journal.delete("ada", &other).await.unwrap_err(), AgentError::NoConversation);
    assert!(matches!(journal.list("ada", 2, "nonsense").await, Err(AgentError::Invalid(_))));
}

#[tokio::test]
async fn a_deleted_conversation_is_gone_and_its_watchers_end() {
    let journal = memory().await;
    let id = journal.create("ada").await.unwrap();
    journal.append(&id, vec![started("hello")]).await.unwrap();
    let mut shown = journal.watch(&id);
    journal.delete("ada", &id).await.unwrap();
    assert!(shown.recv().await.is_err());
    assert!(journal.read(&id, 0, 10).await.unwrap().is_empty());
    assert_eq!(journal.append(&id, vec![started("hello")]).await.unwrap_err(), AgentError::NoConversation);
    assert!(journal.list("ada", 0, "").await.unwrap().conversations.is_empty());
}

#[tokio::test]
async fn what_nobody_used_for_its_lifetime_expires_unless_it_runs() {
    let journal = memory().await;
    let (running, ended) = (journal.create("").await.unwrap(), journal.create("").await.unwrap());
    journal.append(&running, vec![started("goes on")]).await.unwrap();
    journal.append(&ended, vec![started("ends"), Entry::Ended(TurnEnded::default())]).await.unwrap();
    journal.remove_unused(Duration::from_secs(3600)).await.unwrap();
    assert!(journal.get("", &ended).await.is_ok());
    journal.remove_unused(Duration::ZERO).await.unwrap();
    assert!(journal.get("", &running).await.is_ok());
    assert_eq!(journal.get("", &ended).await.unwrap_err(), AgentError::NoConversation);
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_refused_and_leaves_nothing() {
    let journal = memory().await;
    let id = journal.create("").await.unwrap();
    let refused = journal.append(&id, vec![replied("fine"), replied(&"x".repeat(9 << 20))]).await;
    assert_eq!(refused, Err(AgentError::Full(Bound::Event)));
    assert!(journal.read(&id, 0, 10).await.unwrap().is_empty());
    assert_eq!(journal.append(&id, vec![replied("fine")]).await.unwrap()[0].number, 1);
}

fn ended() -> Entry {
    Entry::Ended(TurnEnded::default())
}

/// Fills the store with conversations of a principal until an append is rejected.
async fn fill(journal: &Journal, principal: &str) -> (Vec<String>, AgentError) {
    let mut ids = Vec::new();
    loop {
        let id = match journal.create(principal).await {
            Ok(id) => id,
            Err(error) => return (ids, error),
        };
        ids.push(id.clone());
        for entry in [started(&"x".repeat(1000)), ended()] {
            if let Err(error) = journal.append(&id, vec![entry]).await {
                return (ids, error);
            }
        }
    }
}

#[tokio::test]
async fn one_principal_leaves_room_to_others_and_what_is_deleted_can_be_used_again() {
    for (bytes, conversations, bound) in [(200_000, 1000, Bound::Bytes), (10_000_000, 20, Bound::Conversations)] {
        let journal = Journal::open_within(Location::Memory, bytes, conversations).await;
        let (ids, error) = fill(&journal, "greedy").await;
        assert_eq!(error, AgentError::Full(bound));
        let other = journal.create("modest").await.unwrap();
        journal.append(&other, vec![started(&"x".repeat(1000)), ended()]).await.unwrap();
        for id in &ids {
            journal.delete("greedy", id).await.unwrap();
        }
        assert!(fill(&journal, "greedy").await.0.len() + 2 > ids.len(), "{bound:?}");
    }
}

#[tokio::test]
async fn a_turn_can_end_though_nothing_else_has_room_and_a_restart_counts_what_is_there() {
    let folder = TempFolder::new();
    let open = || Journal::open_within(folder.location(), 100_000, 1000);
    let journal = open().await;
    let turn = journal.create("greedy").await.unwrap();
    journal.append(&turn, vec![started("begins")]).await.unwrap();
    let (ids, _) = fill(&journal, "greedy").await;
    drop(journal);
    let journal = open().await;
    assert_eq!(journal.append(&turn, vec![replied(&"x".repeat(5000))]).await, Err(AgentError::Full(Bound::Bytes)));
    journal.append(&turn, vec![ended()]).await.unwrap();
    let (more, _) = fill(&journal, "greedy").await;
    assert!(more.len() * 4 < ids.len(), "{} more than {}", more.len(), ids.len());
}

#[tokio::test]
async fn what_exceeds_the_room_at_the_start_is_deleted_the_oldest_of_whoever_holds_most_first() {
    for (bytes, conversations) in [(60_000, 1000), (10_000_000, 20)] {
        let folder = TempFolder::new();
        let journal = Journal::open_at(folder.location()).await.unwrap();
        let (running, modest) = (journal.create("greedy").await.unwrap(), journal.create("modest").await.unwrap());
        journal.append(&running, vec![started("goes on")]).await.unwrap();
        journal.append(&modest, vec![started("ends"), ended()]).await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..60 {
            let id = journal.create("greedy").await.unwrap();
            journal.append(&id, vec![started(&"x".repeat(1000)), ended()]).await.unwrap();
            ids.push(id);
        }
        drop(journal);
        let journal = Journal::open_within(folder.location(), bytes, conversations).await;
        assert!(journal.get("greedy", &running).await.is_ok() && journal.get("modest", &modest).await.is_ok());
        let mut are_kept = Vec::new();
        for id in &ids {
            are_kept.push(journal.get("greedy", id).await.is_ok());
        }
        assert!(!are_kept[0] && are_kept[59] && are_kept.is_sorted(), "{are_kept:?}");
        let new = journal.create("new").await.unwrap();
        journal.append(&new, vec![started("hello"), ended()]).await.unwrap();
    }
}

#[tokio::test]
async fn the_bytes_of_a_conversation_outlast_a_restart_and_no_refusal_gives_them_back() {
    let folder = TempFolder::new();
    let open = || Journal::open_within(folder.location(), 60_000, 1000);
    let journal = open().await;
    let id = journal.create("ada").await.unwrap();
    journal.append(&id, vec![started(&"x".repeat(30_000)), ended()]).await.unwrap();
    let bytes = journal.bytes("ada", &id).await.unwrap();
    drop(journal);
    let journal = open().await;
    assert_eq!(journal.bytes("ada", &id).await.unwrap(), bytes);
    let refused = journal.append(&id, vec![replied(&"x".repeat(9 << 20))]).await;
    assert_eq!(refused, Err(AgentError::Full(Bound::Event)));
    let other = journal.create("ada").await.unwrap();
    let refused = journal.append(&other, vec![started(&"x".repeat(30_000)), ended()]).await;
    assert_eq!(refused, Err(AgentError::Full(Bound::Bytes)));
}

#[tokio::test]
async fn the_room_for_the_end_of_a_turn_with_many_calls_outlasts_a_restart() {
    let folder = TempFolder::new();
    let open = || Journal::open_within(folder.location(), 150_000, 1000);
    let journal = open().await;
    let turn = journal.create("greedy").await.unwrap();
    let calls = vec![ModelCall::default(); 20];
    journal
        .append(&turn, vec![started("begins"), Entry::Replied(Replied { calls, ..Replied::default() })])
        .await
        .unwrap();
    drop(journal);
    let journal = open().await;
    fill(&journal, "greedy").await;
    let outcome = Outcome::failure(ErrorCode::Cancelled, "x".repeat(3000));
    let mut end = vec![Entry::Called(Called { outcome, ..Called::default() }); 20];
    end.push(ended());
    journal.append(&turn, end).await.unwrap();
}
