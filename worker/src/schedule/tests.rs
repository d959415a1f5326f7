//! Tests the schedule of a worker, and simulates its callers.

use super::*;

mod simulation;

#[test]
fn the_calls_of_a_caller_have_the_weight_of_one() {
    assert_eq!(nice(1), 0);
    for rank in 1..=64_u8 {
        let weight = f64::from(rank) / 1.25_f64.powi(nice(rank.into()).into());
        assert!((0.89..=1.12).contains(&weight), "{rank} calls weigh {weight}");
    }
    assert_eq!(nice(10_000), 19);
}

#[tokio::test]
async fn only_a_call_that_ended_by_itself_shows_how_long_its_skill_takes() {
    let (scheduler, skill): (_, Arc<Skill>) = (Scheduler::new(1, 0, 8), Arc::default());
    let deadline = Instant::now() + Duration::from_secs(60);
    let request = Request { principal: "", session: "", skill: &skill, limit: None, deadline };
    skill.pace.observe(Duration::from_secs(5));
    for _ in 0..3 {
        let (slot, _) = scheduler.slot(request).await.unwrap();
        drop(slot.watch());
    }
    assert_eq!(skill.pace.read(), Some(Duration::from_secs(5)));
    let (slot, _) = scheduler.slot(request).await.unwrap();
    slot.watch().complete();
    drop(slot);
    assert!(skill.pace.read() < Some(Duration::from_secs(5)));
}

#[tokio::test]
async fn what_a_call_waits_for_the_worker_does_not_make_its_skill_slow() {
    let (scheduler, skill, limit) = (Scheduler::new(1, 0, 8), Arc::default(), SkillLimit::new(1, 8));
    let deadline = Instant::now() + Duration::from_secs(60);
    let request = Request { principal: "", session: "", skill: &skill, limit: Some(&limit), deadline };
    let other = scheduler.any_slot().await;
    let release = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(scheduler.load(), (1, 1));
        let released = Instant::now();
        drop(other);
        released
    };
    let (slot, released) = tokio::join!(scheduler.slot(request), release);
    drop(slot.unwrap());
    skill.pace.read().into_iter().for_each(|pace| assert!(pace <= released.elapsed(), "{pace:?}"));
    assert!(skill.pace.read().is_some());
}

#[tokio::test]
async fn the_next_call_of_a_busy_caller_yields_to_the_first_of_another() {
    let (scheduler, skill, deadline) =
        (Scheduler::new(8, 0, 8), Arc::default(), Instant::now() + Duration::from_secs(60));
    let request = |session| Request { principal: "", session, skill: &skill, limit: None, deadline };
    let mut slots = Vec::new();
    for session in ["busy", "busy", "busy", "quiet"] {
        slots.push(scheduler.slot(request(session)).await.unwrap().0);
    }
    assert_eq!(slots.iter().map(Slot::nice).collect::<Vec<_>>(), [0, 3, 5, 0]);
}
