//! Charges the shared buckets of principals for the tokens that they took here.

use openskill_store::Store;
use openskill_store::engine::StoreError;
use openskill_store::rates::RateCharge;

use super::time::SharedTime;
use crate::identity::registry::Registry;

/// How many principals are charged in one transaction.
const BATCH: usize = 128;

/// Charges what was taken since the last exchange, and follows the shared buckets. What can't be charged is forgotten.
pub(super) async fn exchange(registry: &Registry, store: &Store) -> Result<(), StoreError> {
    for batch in registry.take_spent().chunks(BATCH) {
        let time = SharedTime::now(store);
        let charges: Vec<_> = batch
            .iter()
            .map(|spent| RateCharge {
                principal: spent.principal.clone(),
                since_us: time.store_us(spent.since),
                debt_us: i64::try_from(spent.debt.as_micros()).unwrap_or(i64::MAX / 4),
                full_at_us: time.store_us(spent.full_at),
            })
            .collect();
        let full_at_us = store.charge_rates(&charges).await?;
        let time = SharedTime::now(store);
        for (spent, full_at_us) in batch.iter().zip(full_at_us) {
            spent.usage.follow_rate(time.instant_at_us(full_at_us));
        }
    }
    Ok(())
}
