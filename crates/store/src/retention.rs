//! Keeps what has ended within a number of bytes.

use crate::Store;
use crate::engine::{Row, Statement, StoreError};
use crate::operations::removal;

/// How many operations are removed in one transaction, and at most at once.
const ROUND: usize = 100;
const MAX_REMOVED: usize = 5000;

/// Operations of an earlier version count nothing. Their time removes them.
const USAGE: &str = "SELECT principal, CAST(sum(bytes) AS BIGINT) FROM operations \
                     WHERE ended_ms IS NOT NULL GROUP BY principal";
const OLDEST: &str = "SELECT id, bytes FROM operations WHERE principal = $1 AND ended_ms IS NOT NULL AND bytes > 0 \
                      ORDER BY ended_ms, id LIMIT $2";
/// The same without those whose webhooks are not delivered yet.
const OLDEST_TOLD: &str = "SELECT id, bytes FROM operations WHERE principal = $1 AND ended_ms IS NOT NULL AND bytes > 0 \
                           AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE operation_id = id \
                           AND webhook_deliveries.state = 1) ORDER BY ended_ms, id LIMIT $2";

/// What the ended operations of one principal occupy.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PrincipalUsage {
    bytes: i64,
    principal: String,
}

impl Store {
    /// Removes operations that have ended, until the rest occupies at most `keep_bytes`: the oldest ones of the principal
    /// whose operations occupy most. Returns how many, about 5000 at most.
    ///
    /// # Errors
    /// The store failed.
    pub async fn trim(&self, keep_bytes: i64) -> Result<usize, StoreError> {
        let mut rows = self.engine.read(Statement::new(USAGE, [])).await?;
        let read = |row: &mut Row| Ok(PrincipalUsage { principal: row.text()?, bytes: row.integer()? });
        let mut usages = rows.iter_mut().map(read).collect::<Result<Vec<_>, StoreError>>()?;
        let mut excess = usages.iter().map(|it| it.bytes).sum::<i64>() - keep_bytes;
        let mut removed = 0;
        while excess > 0 && removed < MAX_REMOVED {
            usages.sort();
            let Some(mut most) = usages.pop() else { break };
            // Down to what the next one occupies, and at least one operation.
            let share = most.bytes - usages.last().map_or(0, |it| it.bytes);
            let (count, freed) = self.remove_oldest(&most.principal, share.clamp(1, excess)).await?;
            removed += count;
            excess -= freed;
            most.bytes -= freed;
            if count > 0 {
                usages.push(most);
            }
        }
        Ok(removed)
    }

    /// Removes the oldest operations of a principal that occupy at least `bytes`, if one transaction can. Returns how many,
    /// and what they occupied.
    async fn remove_oldest(&self, principal: &str, bytes: i64) -> Result<(usize, i64), StoreError> {
        let read = |sql| self.engine.read(Statement::new(sql, [principal.into(), (ROUND as i64).into()]));
        let mut rows = read(OLDEST_TOLD).await?;
        if rows.is_empty() {
            // A server that never answers must not make the results of others go.
            rows = read(OLDEST).await?;
        }
        let (mut freed, mut statements, mut count) = (0, Vec::new(), 0);
        for mut row in rows {
            if freed >= bytes {
                break;
            }
            statements.extend(removal(&row.text()?));
            freed += row.integer()?;
            count += 1;
        }
        if count > 0 {
            self.engine.write(statements).await?;
        }
        Ok((count, freed))
    }
}
