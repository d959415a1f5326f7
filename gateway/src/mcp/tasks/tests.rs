use super::*;

fn times() -> Times {
    Times { after: Duration::from_secs(5), ttl: Duration::from_secs(3600) }
}

fn tasks() -> Tasks {
    Tasks::open(None, times()).unwrap()
}

fn completed() -> End {
    End::Completed("{\"content\":[]}".to_owned())
}

#[tokio::test]
async fn a_task_is_there_for_its_owner_alone_while_it_runs_and_after_it() {
    let tasks = tasks();
    let running = tasks.begin("ada").await.unwrap();
    let id = running.id().to_owned();
    running.say("half".to_owned());
    let seen = tasks.get("ada", &id).await.unwrap().unwrap();
    assert_eq!((seen.record.end, seen.message.as_str()), (None, "half"));
    assert!(tasks.get("bob", &id).await.unwrap().is_none() && !tasks.cancel("bob", &id));
    running.end(completed(), String::new).await;
    let seen = tasks.get("ada", &id).await.unwrap().unwrap();
    assert_eq!(seen.record.end, Some(completed()));
    assert!(tasks.get("bob", &id).await.unwrap().is_none() && tasks.lock().live.is_empty());
}

#[tokio::test]
async fn questions_are_open_until_they_are_answered() {
    let tasks = tasks();
    let running = tasks.begin("ada").await.unwrap();
    let id = running.id().to_owned();
    for key in ["one", "two"] {
        running.ask(key.to_owned(), InputRequired::default());
    }
    tasks.answered(&id, "one");
    let seen = tasks.get("ada", &id).await.unwrap().unwrap();
    assert_eq!(seen.questions.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["two"]);
}

#[tokio::test]
async fn one_that_is_cancelled_hears_of_it() {
    let tasks = tasks();
    let running = tasks.begin("ada").await.unwrap();
    assert!(tasks.cancel("ada", running.id()));
    running.cancelled().await;
    let id = running.id().to_owned();
    running.end(End::Cancelled, String::new).await;
    assert!(tasks.cancel("ada", &id), "it is there all the same");
    assert_eq!(tasks.get("ada", &id).await.unwrap().unwrap().record.end, Some(End::Cancelled));
}

#[tokio::test]
async fn what_ended_survives_the_process_and_what_did_not_has_failed() {
    let folder = std::env::temp_dir().join(format!("openskill-tasks-{}", hex(&random_id::<8>())));
    let file = folder.join("tasks.redb");
    let tasks = Tasks::open(Some(&file), times()).unwrap();
    let (ended, runs) = (tasks.begin("ada").await.unwrap(), tasks.begin("ada").await.unwrap());
    let ids = [ended.id().to_owned(), runs.id().to_owned()];
    ended.end(completed(), String::new).await;
    drop((runs, tasks));
    let tasks = Tasks::open(Some(&file), times()).unwrap();
    let end = async |id: &str| tasks.get("ada", id).await.unwrap().unwrap().record.end.unwrap();
    assert_eq!(end(&ids[0]).await, completed());
    assert!(matches!(end(&ids[1]).await, End::Failed(_)));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn an_expired_task_is_none_and_goes_with_the_next_one() {
    let tasks = Tasks::open(None, Times { ttl: Duration::ZERO, ..times() }).unwrap();
    let running = tasks.begin("ada").await.unwrap();
    let id = running.id().to_owned();
    running.end(completed(), String::new).await;
    assert!(tasks.get("ada", &id).await.unwrap().is_none());
    let _next = tasks.begin("ada").await.unwrap();
    assert!(!tasks.lock().kept.contains_key(&id) && tasks.0.store.all().unwrap().len() == 1);
}

#[test]
fn the_oldest_that_ended_make_room_and_those_that_run_do_not() {
    let mut state = State::default();
    let record = |owner: &str, created_ms: u64, end: Option<End>| Record {
        owner: owner.to_owned(),
        created_ms,
        updated_ms: created_ms,
        ttl_ms: 1_000_000,
        end,
    };
    for number in 0..MAX_TASKS_OF_ONE {
        state.keep(format!("a{number}"), &record("ada", number as u64, Some(completed())));
    }
    state.make_room("bob", 300, 5).unwrap();
    assert!(state.forgotten.is_empty());
    state.make_room("ada", 300, 5).unwrap();
    assert_eq!(std::mem::take(&mut state.forgotten), ["a0"]);
    for number in 0..MAX_TASKS_OF_ONE {
        state.keep(format!("b{number}"), &record("bob", number as u64, None));
    }
    assert!(state.make_room("bob", 300, 5).is_err());
    let huge = End::Completed("x".repeat(MAX_BYTES));
    state.keep("huge".to_owned(), &record("cyd", 7, Some(huge)));
    state.make_room("cyd", 300, 5).unwrap();
    assert!(state.forgotten.contains(&"huge".to_owned()) && state.bytes < MAX_BYTES, "{}", state.forgotten.len());
}

#[tokio::test]
async fn a_task_whose_call_was_dropped_makes_room_like_others() {
    let tasks = tasks();
    let id = tasks.begin("ada").await.unwrap().id().to_owned();
    let seen = tasks.get("ada", &id).await.unwrap().unwrap();
    assert_eq!(seen.record.end, Some(End::Failed(interrupted())));
    let mut state = tasks.lock();
    assert_eq!(state.oldest(Some("ada"), ""), Some(id.clone()));
    state.shrink(0, u64::MAX, "");
    assert!(state.kept.is_empty() && state.forgotten == [id]);
}
