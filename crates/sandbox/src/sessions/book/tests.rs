//! Tests of the limits on sessions.

use super::*;

const BOUNDS: SessionBounds =
    SessionBounds { per_caller: 2, per_worker: 3, idle: Duration::from_secs(10), age: Duration::from_secs(60) };

const TERMS: Terms = Terms { maker: 1, together: usize::MAX };

fn owner(principal: &str, conversation: &str) -> SessionOwner {
    SessionOwner { group: "g".to_owned(), principal: principal.to_owned(), conversation: conversation.to_owned() }
}

fn key(principal: &str, name: &str) -> Key {
    Key { owner: owner(principal, ""), name: Some(name.to_owned()) }
}

fn taken(book: &Arc<SessionBook<u32>>, key: &Key, now: Instant) -> Result<Lease<u32>, SessionRefusal> {
    book.try_take(key, TERMS, now)
}

/// Creates a session with this value, and leaves it idle.
fn idle(book: &Arc<SessionBook<u32>>, key: &Key, value: u32, now: Instant) {
    assert!(taken(book, key, now).map(|lease| lease.give_back(value, now)).unwrap_or_default());
}

#[test]
fn a_session_is_of_one_caller_and_one_name() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    idle(&book, &key("ada", "s"), 1, now);
    let kept = taken(&book, &key("ada", "s"), now).unwrap();
    assert_eq!((kept.process, kept.cells), (Some(1), 2));
    for other in [key("eve", "s"), key("ada", "t")] {
        assert_eq!(taken(&book, &other, now).unwrap().process, None, "{other:?}");
    }
    let other = Key { owner: owner("ada", "another conversation"), name: Some("s".to_owned()) };
    assert_eq!(taken(&book, &other, now).unwrap().process, None);
    let listed = |principal: &str| book.list(&owner(principal, ""), now).len();
    assert_eq!((listed("ada"), listed("eve")), (1, 0), "those that were dropped are gone");
}

#[tokio::test]
async fn a_session_has_one_call_at_a_time() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let lease = taken(&book, &key("ada", "s"), now).unwrap();
    assert_eq!(book.take(&key("ada", "s"), TERMS, now).await.err(), Some(SessionRefusal::Busy));
    let own = key("ada", "s");
    let (waits, gives) = tokio::join!(book.take(&own, TERMS, now + Duration::from_secs(60)), async {
        tokio::task::yield_now().await;
        lease.give_back(7, now)
    });
    assert_eq!((waits.unwrap().process, gives), (Some(7), true));
}

#[test]
fn the_least_recently_used_idle_session_of_the_same_caller_makes_room() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    idle(&book, &key("ada", "old"), 1, at(0));
    idle(&book, &key("ada", "new"), 2, at(1));
    idle(&book, &key("ada", "newest"), 3, at(2));
    let names: Vec<_> = book.list(&owner("ada", ""), at(2)).into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["new", "newest"]);
    let one = taken(&book, &key("ada", "new"), at(4)).unwrap();
    let other = taken(&book, &key("ada", "newest"), at(4)).unwrap();
    assert_eq!(taken(&book, &key("ada", "more"), at(4)).err(), Some(SessionRefusal::CallerFull));
    drop((one, other));
    assert_eq!(book.count(), 0);
}

/// Returns the names of these owners' named sessions.
fn names(book: &SessionBook<u32>, owners: &[SessionOwner]) -> Vec<String> {
    let listed = owners.iter().flat_map(|it| book.list(it, Instant::now()));
    listed.map(|it| it.name).collect()
}

#[test]
fn whoever_has_the_most_sessions_makes_room_on_a_full_worker() {
    let (book, now) = (SessionBook::new(SessionBounds { per_worker: 4, ..BOUNDS }), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    // An anonymous caller invents a new conversation for every two sessions.
    let of = |conversation: &str, name: &str| Key { owner: owner("", conversation), name: Some(name.to_owned()) };
    idle(&book, &of("1", "a"), 1, at(0));
    idle(&book, &of("2", "b"), 2, at(1));
    idle(&book, &of("2", "c"), 3, at(2));
    idle(&book, &of("1", "d"), 4, at(3));
    let all = [owner("", "1"), owner("", "2"), owner("", "mine"), owner("ada", "")];
    idle(&book, &of("mine", "e"), 5, at(4));
    assert_eq!(names(&book, &all), ["d", "b", "c", "e"], "of two with the same number, the one used less recently");
    idle(&book, &of("mine", "f"), 6, at(5));
    assert_eq!(names(&book, &all), ["d", "c", "e", "f"], "'2' had more");
    idle(&book, &key("ada", "g"), 7, at(6));
    assert_eq!(names(&book, &all), ["d", "c", "f", "g"], "another principal is above all of them");
    idle(&book, &key("eve", "h"), 8, at(7));
    // Each has one session, so neither has more than the other.
    let busy: Vec<_> =
        ["d", "c"].iter().zip(["1", "2"]).filter_map(|(name, of_)| taken(&book, &of(of_, name), at(8)).ok()).collect();
    assert_eq!(busy.len(), 2);
    assert_eq!(taken(&book, &key("eve", "i"), at(8)).unwrap().process, None);
    assert_eq!(names(&book, &[owner("ada", "")]), ["g"], "who asks for more than others have gives its own");
}

#[test]
fn a_principal_has_half_of_the_worker_whatever_conversations_it_makes_up() {
    let (book, now) = (SessionBook::new(SessionBounds { per_worker: 6, ..BOUNDS }), Instant::now());
    let of = |conversation: usize| Key { owner: owner("ada", &conversation.to_string()), name: Some("s".to_owned()) };
    for conversation in 0..5 {
        idle(&book, &of(conversation), 1, now + Duration::from_secs(conversation as u64));
    }
    assert_eq!(book.count(), 3);
    let busy: Vec<_> = (2..5).map(|it| taken(&book, &of(it), now).unwrap()).collect();
    assert!(busy.iter().all(|it| it.process.is_some()), "the most recent ones");
    assert_eq!(taken(&book, &of(9), now).err(), Some(SessionRefusal::PrincipalFull));
    assert!(taken(&book, &key("eve", "s"), now).is_ok());
    let anonymous: Vec<_> =
        (0..3).map(|it| Key { owner: owner("", &it.to_string()), name: Some("s".to_owned()) }).collect();
    let held: Vec<_> = anonymous.iter().map(|it| taken(&book, it, now).map_err(|it| panic!("{it:?}"))).collect();
    assert_eq!(held.len(), 3);
}

#[test]
fn sessions_of_an_owner_are_as_many_as_their_memory_allows() {
    let (book, now) = (SessionBook::new(SessionBounds { per_caller: 9, per_worker: 9, ..BOUNDS }), Instant::now());
    let terms = Terms { maker: 1, together: 2 };
    let take = |key: &Key| book.try_take(key, terms, now);
    let held: Vec<_> = ["a", "b"].map(|name| take(&key("ada", name)).unwrap()).into();
    assert_eq!(take(&key("ada", "c")).err(), Some(SessionRefusal::MemoryFull));
    let alone = Key { owner: owner("ada", ""), name: None };
    assert_eq!(take(&alone).err(), Some(SessionRefusal::MemoryFull), "one for a call uses memory too");
    assert!(take(&key("eve", "c")).is_ok(), "another owner has its own");
    assert!(book.try_take(&key("ada", "c"), Terms { maker: 2, ..terms }, now).is_ok(), "so has another maker");
    held.into_iter().for_each(|it| assert!(it.give_back(1, now)));
    assert_eq!(take(&alone).err(), Some(SessionRefusal::MemoryFull), "it evicts nothing");
    assert!(take(&key("ada", "c")).is_ok() && book.count() == 1);
}

#[test]
fn a_session_belongs_to_what_made_it_and_ends_with_it() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let by = |maker| Terms { maker, ..TERMS };
    idle(&book, &key("ada", "s"), 1, now);
    let other = book.try_take(&key("ada", "s"), by(2), now).unwrap();
    assert_eq!(other.process, None, "another skill, or another version of it");
    let own = taken(&book, &key("ada", "s"), now).unwrap();
    assert_eq!(own.process, Some(1));
    book.clear(|maker| maker == 1);
    assert!(!own.stop.is_cancelled() && !own.give_back(1, now), "its call goes on, and is the last");
    assert!(other.give_back(2, now));
    assert_eq!((book.count(), taken(&book, &key("ada", "s"), now).unwrap().process), (1, None));
}

#[test]
fn a_session_for_one_call_takes_no_room_of_those_that_are_kept() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    for name in ["a", "b"] {
        idle(&book, &key("ada", name), 1, now);
    }
    let alone = Key { owner: owner("ada", ""), name: None };
    let held: Vec<_> = (0..2).map(|_| taken(&book, &alone, now).unwrap()).collect();
    assert_eq!(taken(&book, &alone, now).err(), Some(SessionRefusal::CallerFull));
    assert_eq!(names(&book, &[owner("ada", "")]), ["a", "b"]);
    drop(held);
}

#[test]
fn a_session_for_one_call_is_never_another_ones() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let key = Key { owner: owner("ada", ""), name: None };
    let one = taken(&book, &key, now).unwrap();
    let other = taken(&book, &key, now).unwrap();
    assert!(one.fleeting && one.process.is_none() && other.process.is_none());
    assert_eq!(taken(&book, &key, now).err(), Some(SessionRefusal::CallerFull));
    assert!(book.list(&owner("ada", ""), now).is_empty(), "it has no name");
    drop((one, other));
    assert_eq!(book.count(), 0);
}

#[test]
fn sessions_end_when_they_are_idle_or_old_or_dead_and_not_while_they_are_used() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    idle(&book, &key("ada", "s"), 1, now);
    let lease = taken(&book, &key("eve", "s"), now).unwrap();
    assert_eq!(book.expire(at(9), |_| true), 0);
    assert_eq!(book.expire(at(10), |_| true), 1);
    assert_eq!((book.expire(at(100), |_| true), book.count()), (0, 1), "it is in use");
    assert!(lease.give_back(2, at(100)));
    assert_eq!(taken(&book, &key("eve", "s"), at(101)).unwrap().process, None, "it is too old");
    idle(&book, &key("ada", "s"), 3, at(102));
    assert_eq!(book.expire(at(103), |process| *process != 3), 1, "its process is dead");
}

#[test]
fn a_session_that_is_closed_while_it_is_used_is_not_kept() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let lease = taken(&book, &key("ada", "s"), now).unwrap();
    assert!(!book.close(&owner("eve", ""), "s") && !lease.stop.is_cancelled());
    assert!(book.close(&owner("ada", ""), "s") && lease.stop.is_cancelled());
    assert!(!book.close(&owner("ada", ""), "s"));
    let next = taken(&book, &key("ada", "s"), now).unwrap();
    assert!(!lease.give_back(1, now), "its place is another one's");
    assert!(next.give_back(2, now));
    assert_eq!(taken(&book, &key("ada", "s"), now).unwrap().process, Some(2));
}

#[test]
fn a_caller_cleans_up_its_own_idle_sessions() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    idle(&book, &key("ada", "old"), 1, at(0));
    idle(&book, &key("ada", "new"), 2, at(4));
    idle(&book, &key("eve", "old"), 3, at(0));
    assert_eq!(book.clean(&owner("ada", ""), Duration::from_secs(5), at(5)), ["old"]);
    assert_eq!(book.count(), 2);
}

#[test]
fn a_book_that_is_shut_has_no_session() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    idle(&book, &key("ada", "s"), 1, now);
    let lease = taken(&book, &key("eve", "s"), now).unwrap();
    book.shut();
    assert!(lease.stop.is_cancelled() && !lease.give_back(2, now) && book.count() == 0);
    assert_eq!(taken(&book, &key("joe", "s"), now).err(), Some(SessionRefusal::Closed));
}

#[tokio::test]
async fn a_call_waits_for_room_and_not_for_ever() {
    let (book, now) = (SessionBook::new(BOUNDS), Instant::now());
    let alone = Key { owner: owner("ada", ""), name: None };
    let (one, other) = (taken(&book, &alone, now).unwrap(), taken(&book, &alone, now).unwrap());
    assert_eq!(book.take(&alone, TERMS, now).await.err(), Some(SessionRefusal::CallerFull));
    let (waits, ()) = tokio::join!(book.take(&alone, TERMS, now + Duration::from_secs(60)), async {
        tokio::task::yield_now().await;
        drop(one);
    });
    assert!(waits.is_ok());
    drop(other);
}
