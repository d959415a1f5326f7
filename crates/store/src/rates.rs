//! The token buckets of principals, which the gateways of a store fill and empty together.
//!
//! A bucket is the time at which it will be full again. A gateway takes tokens from its own copy, and then charges them here.

use crate::Store;
use crate::engine::{Statement, StoreError, Value};

/// The bucket after a charge: what was in it, from `$2` on, minus what was taken. The bucket of the gateway was no fuller.
macro_rules! charged {
    () => {
        "(CASE WHEN rates.full_at_us > $2 THEN rates.full_at_us ELSE $2 END) + $3"
    };
}

const CHARGE: &str = concat!(
    "INSERT INTO rates (principal, full_at_us, updated_ms) VALUES ($1, $4, $5) ON CONFLICT (principal) DO UPDATE \
     SET updated_ms = excluded.updated_ms, full_at_us = CASE WHEN ",
    charged!(),
    " > excluded.full_at_us THEN ",
    charged!(),
    " ELSE excluded.full_at_us END RETURNING full_at_us"
);
/// A bucket that is full need not be kept.
const REMOVE: &str = "DELETE FROM rates WHERE updated_ms < $1 AND full_at_us < $2";

/// How long a bucket is kept that is not used.
const KEEP_MS: i64 = 3_600_000;

/// What a gateway took from a principal's bucket since its last charge. Times are of the store's clock, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateCharge {
    /// The principal.
    pub principal: String,
    /// When the first token was taken.
    pub since_us: i64,
    /// The time that the bucket needs to fill up what was taken.
    pub debt_us: i64,
    /// When the gateway's own copy of the bucket will be full.
    pub full_at_us: i64,
}

impl Store {
    /// Charges principals for tokens, and returns when each of their buckets will be full, in the same order.
    ///
    /// # Errors
    /// The store failed. After [`StoreError::Unknown`] the tokens may have been charged: charging them again does so twice.
    pub async fn charge_rates(&self, charges: &[RateCharge]) -> Result<Vec<i64>, StoreError> {
        let now_ms = self.now_ms();
        let charge = |it: &RateCharge| {
            let values: [Value; 5] = [
                it.principal.as_str().into(),
                it.since_us.into(),
                it.debt_us.into(),
                it.full_at_us.into(),
                now_ms.into(),
            ];
            Statement::new(CHARGE, values)
        };
        // In one order, so that gateways don't wait for each other in circles.
        let mut order: Vec<_> = charges.iter().enumerate().collect();
        order.sort_by_key(|(_, it)| &it.principal);
        let rows = self.engine.write(order.iter().map(|(_, it)| charge(it)).collect()).await?;
        let mut times = vec![0; charges.len()];
        for ((number, _), mut rows) in order.into_iter().zip(rows) {
            if let Some((time, row)) = times.get_mut(number).zip(rows.first_mut()) {
                *time = row.integer()?;
            }
        }
        Ok(times)
    }

    /// Removes buckets that were not used for an hour, and are full.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_unused_rates(&self) -> Result<(), StoreError> {
        let values = [(self.now_ms() - KEEP_MS).into(), self.now_us().into()];
        self.rows(Statement::new(REMOVE, values)).await.map(drop)
    }
}
