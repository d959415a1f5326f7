use super::*;

fn times() -> TaskTimes {
    TaskTimes { after: Duration::from_secs(5), ttl: Duration::from_secs(3600) }
}

fn tasks() -> Tasks {
    Tasks::open(None, times()).unwrap()
}

fn at(principal: &str, view: &str) -> Owner {
    Owner { principal: principal.to_owned(), view: view.to_owned() }
}

fn ada() -> Owner {
    at("ada", "")
}

fn completed() -> TaskOutcome {
    TaskOutcome::Completed("{\"content\":[]}".to_owned())
}

#[tokio::test]
async fn a_task_is_there_for_its_owner_alone_while_it_runs_and_after_it() {
    let tasks = tasks();
    let running = tasks.begin(&ada(), GovernedSkill::default()).await.unwrap();
    let id = running.id().to_owned();
    running.say("half".to_owned());
    let seen = tasks.get(&ada(), &id).unwrap();
    assert_eq!((seen.record.end.clone(), seen.message.as_str()), (None, "half"));
    for other in [at("bob", ""), at("ada", "notes")] {
        assert!(tasks.get(&other, &id).is_none() && !tasks.cancel(&other, &id), "{other:?}");
    }
    running.end(completed(), String::new).await;
    let seen = tasks.get(&ada(), &id).unwrap();
    assert_eq!(seen.record.end, Some(completed()));
    assert!(tasks.get(&at("ada", "notes"), &id).is_none() && tasks.lock().tasks[&id].running.is_none());
}

#[tokio::test]
async fn questions_are_open_until_they_are_answered() {
    let tasks = tasks();
    let running = tasks.begin(&ada(), GovernedSkill::default()).await.unwrap();
    let id = running.id().to_owned();
    for key in ["one", "two"] {
        running.ask(key.to_owned(), InputRequired::default());
    }
    tasks.remove_question(&id, "one");
    let seen = tasks.get(&ada(), &id).unwrap();
    assert_eq!(seen.questions.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["two"]);
}

#[tokio::test]
async fn one_that_is_cancelled_hears_of_it() {
    let tasks = tasks();
    let running = tasks.begin(&ada(), GovernedSkill::default()).await.unwrap();
    assert!(tasks.cancel(&ada(), running.id()));
    running.wait_until_cancelled().await;
    let id = running.id().to_owned();
    running.end(TaskOutcome::Cancelled, String::new).await;
    assert!(tasks.cancel(&ada(), &id), "it is there all the same");
    assert_eq!(tasks.get(&ada(), &id).unwrap().record.end, Some(TaskOutcome::Cancelled));
}

#[tokio::test]
async fn what_ended_survives_the_process_and_what_did_not_has_failed() {
    let folder = std::env::temp_dir().join(format!("openskill-tasks-{}", hex(&random_id::<8>())));
    let file = folder.join("tasks.redb");
    let tasks = Tasks::open(Some(&file), times()).unwrap();
    let (ended, runs) = (
        tasks.begin(&ada(), GovernedSkill::default()).await.unwrap(),
        tasks.begin(&ada(), GovernedSkill::default()).await.unwrap(),
    );
    let ids = [ended.id().to_owned(), runs.id().to_owned()];
    ended.end(completed(), String::new).await;
    drop((runs, tasks));
    let tasks = Tasks::open(Some(&file), times()).unwrap();
    let end = |id: &str| tasks.get(&ada(), id).unwrap().record.end.clone().unwrap();
    assert_eq!(end(&ids[0]), completed());
    assert!(matches!(end(&ids[1]), TaskOutcome::Failed(_)));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn an_expired_task_is_none_and_goes_with_the_next_one() {
    let tasks = Tasks::open(None, TaskTimes { ttl: Duration::ZERO, ..times() }).unwrap();
    let running = tasks.begin(&ada(), GovernedSkill::default()).await.unwrap();
    let id = running.id().to_owned();
    running.end(completed(), String::new).await;
    assert!(tasks.get(&ada(), &id).is_none());
    let _next = tasks.begin(&ada(), GovernedSkill::default()).await.unwrap();
    let state = tasks.lock();
    assert!(!state.tasks.contains_key(&id) && state.tasks.len() == 1);
}

fn record(principal: &str, created_ms: u64, end: Option<TaskOutcome>) -> Record {
    Record {
        owner: at(principal, ""),
        skill: GovernedSkill::default(),
        created_ms,
        updated_ms: created_ms,
        ttl_ms: 1_000_000,
        end,
    }
}

fn of_size(bytes: usize) -> Option<TaskOutcome> {
    Some(TaskOutcome::Completed("x".repeat(bytes)))
}

#[test]
fn the_oldest_that_ended_make_room_and_those_that_run_do_not() {
    let mut state = State::default();
    for number in 0..MAX_TASKS_OF_ONE {
        state.keep(format!("a{number}"), Task::new(record("ada", number as u64, Some(completed())), None));
    }
    state.make_room("bob", 300, 5).unwrap();
    assert!(state.forgotten.is_empty());
    state.make_room("ada", 300, 5).unwrap();
    assert_eq!(std::mem::take(&mut state.forgotten), ["a0"]);
    for number in 0..MAX_TASKS_OF_ONE {
        state.keep(format!("b{number}"), Task::new(record("bob", number as u64, None), None));
    }
    assert!(matches!(state.make_room("bob", 300, 5), Err(TaskRefusal::Full)));
    state.keep("huge".to_owned(), Task::new(record("cyd", 7, of_size(MAX_BYTES)), None));
    state.make_room("cyd", 300, 5).unwrap();
    assert!(state.forgotten.contains(&"huge".to_owned()) && state.bytes < MAX_BYTES, "{}", state.forgotten.len());
}

#[test]
fn one_principal_pushes_out_its_own_tasks_and_nobody_elses_share() {
    // Size limit: the principal that has the most loses tasks, although the oldest task is another's.
    let mut state = State::default();
    state.keep("small".to_owned(), Task::new(record("ada", 0, of_size(MAX_BYTES / 8)), None));
    for number in 0..64 {
        state.make_room("bob", MAX_BYTES / 8, 5).unwrap();
        state.keep(format!("b{number}"), Task::new(record("bob", 1 + number, of_size(MAX_BYTES / 8)), None));
    }
    assert!(state.tasks.contains_key("small") && state.bytes <= MAX_BYTES + MAX_BYTES / 8);
    assert!(state.forgotten.iter().all(|it| it.starts_with('b')), "{:?}", state.forgotten);
    // Number limit: a new principal gets room at the expense of those that have all tasks.
    let mut state = State::default();
    for number in 0..MAX_TASKS {
        let name = format!("flood{}", number / MAX_TASKS_OF_ONE);
        state.keep(format!("f{number}"), Task::new(record(&name, 1 + number as u64, Some(completed())), None));
    }
    for number in 0..3 {
        state.make_room("ada", 300, 5).unwrap();
        state.keep(format!("a{number}"), Task::new(record("ada", 0, Some(completed())), None));
    }
    assert!((0..3).all(|it| state.tasks.contains_key(&format!("a{it}"))) && state.tasks.len() == MAX_TASKS);
}

#[tokio::test]
async fn a_task_whose_call_was_dropped_makes_room_like_others() {
    let tasks = tasks();
    let id = tasks.begin(&ada(), GovernedSkill::default()).await.unwrap().id().to_owned();
    let seen = tasks.get(&ada(), &id).unwrap();
    assert_eq!(seen.record.end, Some(TaskOutcome::Failed(interrupted_error())));
    let mut state = tasks.lock();
    assert_eq!(state.oldest("ada", ""), Some(id.clone()));
    state.shrink(("", 0), u64::MAX, "");
    assert!(state.tasks.is_empty() && state.forgotten == [id]);
}
