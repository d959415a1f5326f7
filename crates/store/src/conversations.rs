//! Conversations of agents: a log of entries for each, and what lists show.
//!
//! Only one gateway appends to a log at a time. An append names the number of the entry before it, and changes nothing
//! if the log has gone on or another gateway holds the conversation. A gateway holds it by a lease, from an entry that
//! leaves something to do until it releases it: so no other one repeats what it is doing. The number decides even if a
//! lease ends too early, because a row changes once at a time.

use crate::Store;
use crate::engine::{Row, Rows, Statement, StoreError};

/// The columns of a conversation, in the order in which `Conversation::read` reads them.
macro_rules! columns {
    () => {
        "id, principal, used_us, last_number, room_bytes, phase, gateway, metadata"
    };
}

const CREATE: &str = "INSERT INTO conversations (id, principal, used_us, last_number, room_bytes, phase, gateway, metadata, \
                      lease_ms, cancel_requested, token) VALUES ($1, $2, $3, 0, $4, 0, '', $5, 0, 0, '') ON CONFLICT DO NOTHING";
/// The token tells that a transaction whose outcome was unknown did happen.
const ADVANCE: &str = "UPDATE conversations SET used_us = $6, last_number = $7, room_bytes = $8, phase = $9, metadata = $10, \
                       gateway = $3, lease_ms = $11, token = $5, \
                       cancel_requested = CASE WHEN $9 = CAST(0 AS BIGINT) THEN 0 ELSE cancel_requested END \
                       WHERE id = $1 AND (token = $5 OR last_number = $2 AND (gateway = $3 OR lease_ms < $4)) RETURNING id";
const ADD_ENTRY: &str = "INSERT INTO conversation_entries (conversation_id, number, entry) SELECT id, $2, $3 \
                         FROM conversations WHERE id = $1 AND token = $4 ON CONFLICT DO NOTHING";
const GET: &str = concat!("SELECT ", columns!(), " FROM conversations WHERE id = $1");
const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM conversations WHERE principal = $1 AND (used_us, id) < ($2, $3) ORDER BY used_us DESC, id DESC LIMIT $4"
);
const LIST_ALL: &str = concat!("SELECT ", columns!(), " FROM conversations WHERE id > $1 ORDER BY id LIMIT 1000");
/// The rows are bounded before their bytes are added up.
const ENTRIES: &str = "SELECT number, entry FROM (SELECT number, entry, sum(length(entry)) OVER (ORDER BY number) AS total \
                       FROM (SELECT number, entry FROM conversation_entries WHERE conversation_id = $1 AND number > $2 \
                       ORDER BY number LIMIT 1000) page) summed WHERE total - length(entry) < $3 ORDER BY number";
const USAGE: &str = "SELECT CAST(coalesce(sum(room_bytes), 0) AS BIGINT), count(*), \
                     CAST(coalesce(sum(CASE WHEN principal = $1 THEN room_bytes ELSE 0 END), 0) AS BIGINT), \
                     count(CASE WHEN principal = $1 THEN 1 END), count(DISTINCT principal) FROM conversations";
const CLAIM: &str = "UPDATE conversations SET gateway = $2, lease_ms = $3, cancel_requested = 0 \
                     WHERE id = $1 AND phase <> 0 AND (gateway = $2 OR lease_ms < $4) RETURNING id";
const RENEW: &str = "UPDATE conversations SET lease_ms = $2 WHERE gateway = $1 AND phase > 0 AND lease_ms > 0 \
                     RETURNING id, cancel_requested";
const RELEASE: &str = "UPDATE conversations SET lease_ms = 0 WHERE id = $1 AND gateway = $2 AND lease_ms > 0";
const ABANDONED: &str =
    concat!("SELECT ", columns!(), " FROM conversations WHERE phase = 1 AND lease_ms < $1 LIMIT $2");
const REQUEST_CANCEL: &str = "UPDATE conversations SET cancel_requested = 1 WHERE id = $1 AND phase > 0";
const REMOVE: &str = "DELETE FROM conversations WHERE id = $1 RETURNING id";
/// Someone may have used it since it was read.
const REMOVE_UNUSED: &str = "DELETE FROM conversations WHERE id = $1 AND used_us = $2 RETURNING id";
const REMOVE_ENTRIES: &str = "DELETE FROM conversation_entries WHERE conversation_id = $1 AND NOT EXISTS \
                              (SELECT 1 FROM conversations WHERE id = $1)";
const UNUSED: &str =
    concat!("SELECT ", columns!(), " FROM conversations WHERE used_us < $1 AND phase <> 1 ORDER BY used_us LIMIT 100");

/// How often a transaction runs whose outcome is unknown.
const TRIES: usize = 3;

/// A conversation without its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The id, which its gateway made.
    pub id: String,
    /// Whose it is. Empty if callers are not authenticated.
    pub principal: String,
    /// When it was used last, in microseconds since 1970.
    pub used_us: i64,
    /// The number of the last entry, or 0.
    pub last_number: i64,
    /// How many bytes count against the limits: those of the entries, and what is reserved.
    pub room_bytes: i64,
    /// What is left to do.
    pub phase: Phase,
    /// The gateway that wrote last, or that holds it. Empty if none did.
    pub gateway: String,
    /// What the agent keeps about it.
    pub metadata: Vec<u8>,
}

/// What is left to do in a conversation. The numbers are in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing.
    Over = 0,
    /// A gateway works on it, or was lost while it did.
    Running = 1,
    /// Its user must say something.
    Waiting = 2,
}

/// An entry of a conversation's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// The number, from 1 without gaps.
    pub number: i64,
    /// The entry in the agent's form.
    pub entry: Vec<u8>,
}

/// How much room conversations use, all together and those of one principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationUsage {
    /// The sum of [`Conversation::room_bytes`].
    pub total_bytes: i64,
    /// The number of conversations.
    pub total_count: i64,
    /// The bytes of the principal.
    pub own_bytes: i64,
    /// The conversations of the principal.
    pub own_count: i64,
    /// The number of principals that have conversations.
    pub principals: i64,
}

/// A conversation that a gateway holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldConversation {
    /// Its id.
    pub id: String,
    /// Whether its user asked another gateway to cancel its turn.
    pub cancel_requested: bool,
}

impl Conversation {
    fn read(row: &mut Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.text()?,
            principal: row.text()?,
            used_us: row.integer()?,
            last_number: row.integer()?,
            room_bytes: row.integer()?,
            phase: match row.integer()? {
                0 => Phase::Over,
                1 => Phase::Running,
                2 => Phase::Waiting,
                other => return Err(StoreError::Damaged(format!("a conversation has the unknown phase {other}"))),
            },
            gateway: row.text()?,
            metadata: row.bytes()?,
        })
    }
}

impl Store {
    /// Creates a conversation without entries, unless its id exists.
    ///
    /// # Errors
    /// The store failed.
    pub async fn create_conversation(&self, new: &Conversation) -> Result<(), StoreError> {
        let values = [
            new.id.as_str().into(),
            new.principal.as_str().into(),
            new.used_us.into(),
            new.room_bytes.into(),
            new.metadata.clone().into(),
        ];
        self.write_surely(vec![Statement::new(CREATE, values)]).await.map(drop)
    }

    /// Appends entries, which become the last ones of `after`. They are durable once this returns true. The gateway of
    /// `after` holds the conversation for `lease_ms`, unless its phase is [`Phase::Over`].
    ///
    /// Returns false if nothing changed: the conversation is gone, its log has another length, or another gateway
    /// holds it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn append_entries(
        &self,
        after: &Conversation,
        entries: Vec<Vec<u8>>,
        lease_ms: i64,
    ) -> Result<bool, StoreError> {
        let token = format!("{:032x}", rand::random::<u128>());
        let first = after.last_number - i64::try_from(entries.len()).unwrap_or(i64::MAX) + 1;
        let lease = if after.phase == Phase::Over { 0 } else { self.now_ms() + lease_ms };
        let values = [
            after.id.as_str().into(),
            (first - 1).into(),
            after.gateway.as_str().into(),
            self.free_since_ms().into(),
            token.as_str().into(),
            after.used_us.into(),
            after.last_number.into(),
            after.room_bytes.into(),
            (after.phase as i64).into(),
            after.metadata.clone().into(),
            lease.into(),
        ];
        let mut statements = vec![Statement::new(ADVANCE, values)];
        statements.extend(entries.into_iter().zip(first..).map(|(entry, number)| {
            let values = [after.id.as_str().into(), number.into(), entry.into(), token.as_str().into()];
            Statement::new(ADD_ENTRY, values)
        }));
        Ok(has_changed(&self.write_surely(statements).await?))
    }

    /// Returns a conversation.
    ///
    /// # Errors
    /// The store failed.
    pub async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        let row = self.engine.read(Statement::new(GET, [id.into()])).await?.pop();
        row.map(|mut row| Conversation::read(&mut row)).transpose()
    }

    /// Lists the conversations of a principal, the one used last first, at most `limit`. `before` is the last use and
    /// the id of the last one on the page before.
    ///
    /// # Errors
    /// The store failed.
    pub async fn conversations(
        &self,
        principal: &str,
        before: Option<(i64, &str)>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        let (used_us, id) = before.unwrap_or((i64::MAX, ""));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = [principal.into(), used_us.into(), id.into(), limit.into()];
        self.read_conversations(Statement::new(LIST, values)).await
    }

    /// Lists conversations of all principals by id, after one, at most 1000.
    ///
    /// # Errors
    /// The store failed.
    pub async fn all_conversations(&self, after: &str) -> Result<Vec<Conversation>, StoreError> {
        self.read_conversations(Statement::new(LIST_ALL, [after.into()])).await
    }

    /// Returns entries after a number, at least one if there is any: at most 1000, and no more once they have
    /// `max_bytes`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn entries(&self, id: &str, after: i64, max_bytes: usize) -> Result<Vec<StoredEntry>, StoreError> {
        let max_bytes = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        let values = [id.into(), after.into(), max_bytes.into()];
        let mut rows = self.engine.read(Statement::new(ENTRIES, values)).await?;
        let read = |row: &mut Row| Ok(StoredEntry { number: row.integer()?, entry: row.bytes()? });
        rows.iter_mut().map(read).collect()
    }

    /// Adds up what conversations use.
    ///
    /// # Errors
    /// The store failed.
    pub async fn conversation_usage(&self, principal: &str) -> Result<ConversationUsage, StoreError> {
        let row = self.engine.read(Statement::new(USAGE, [principal.into()])).await?.pop();
        let mut row = row.ok_or_else(|| StoreError::Damaged("a sum has no row".to_owned()))?;
        Ok(ConversationUsage {
            total_bytes: row.integer()?,
            total_count: row.integer()?,
            own_bytes: row.integer()?,
            own_count: row.integer()?,
            principals: row.integer()?,
        })
    }

    /// Takes a conversation in which something is left to do, for `lease_ms`. Returns false if another gateway holds it,
    /// or nothing is left.
    ///
    /// # Errors
    /// The store failed.
    pub async fn claim_conversation(&self, id: &str, gateway: &str, lease_ms: i64) -> Result<bool, StoreError> {
        let values = [id.into(), gateway.into(), (self.now_ms() + lease_ms).into(), self.free_since_ms().into()];
        Ok(has_changed(&self.write_surely(vec![Statement::new(CLAIM, values)]).await?))
    }

    /// Extends the leases of all conversations that a gateway holds, and returns them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn renew_conversations(&self, gateway: &str, lease_ms: i64) -> Result<Vec<HeldConversation>, StoreError> {
        let renew = Statement::new(RENEW, [gateway.into(), (self.now_ms() + lease_ms).into()]);
        let mut rows = self.write_surely(vec![renew]).await?.pop().unwrap_or_default();
        let read = |row: &mut Row| Ok(HeldConversation { id: row.text()?, cancel_requested: row.integer()? != 0 });
        rows.iter_mut().map(read).collect()
    }

    /// Lets another gateway take a conversation.
    ///
    /// # Errors
    /// The store failed.
    pub async fn release_conversation(&self, id: &str, gateway: &str) -> Result<(), StoreError> {
        self.write_surely(vec![Statement::new(RELEASE, [id.into(), gateway.into()])]).await.map(drop)
    }

    /// Asks the gateway that holds a conversation to cancel its turn.
    ///
    /// # Errors
    /// The store failed.
    pub async fn request_cancel(&self, id: &str) -> Result<(), StoreError> {
        self.write_surely(vec![Statement::new(REQUEST_CANCEL, [id.into()])]).await.map(drop)
    }

    /// Returns at most `limit` conversations that were left running, and that no gateway holds.
    ///
    /// # Errors
    /// The store failed.
    pub async fn abandoned_conversations(&self, limit: usize) -> Result<Vec<Conversation>, StoreError> {
        let values = [self.free_since_ms().into(), i64::try_from(limit).unwrap_or(i64::MAX).into()];
        self.read_conversations(Statement::new(ABANDONED, values)).await
    }

    /// Returns at most 100 conversations that were last used before a time and don't run.
    ///
    /// # Errors
    /// The store failed.
    pub async fn unused_conversations(&self, before_us: i64) -> Result<Vec<Conversation>, StoreError> {
        self.read_conversations(Statement::new(UNUSED, [before_us.into()])).await
    }

    /// Removes a conversation and its entries. Returns false if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_conversation(&self, id: &str) -> Result<bool, StoreError> {
        let remove = [REMOVE, REMOVE_ENTRIES].map(|sql| Statement::new(sql, [id.into()]));
        Ok(has_changed(&self.write_surely(remove.into()).await?))
    }

    /// Removes those of the conversations that were not used since they were read.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_unused(&self, unused: &[Conversation]) -> Result<(), StoreError> {
        let remove = |it: &Conversation| {
            let (id, used_us) = (it.id.as_str(), it.used_us);
            let remove = Statement::new(REMOVE_UNUSED, [id.into(), used_us.into()]);
            [remove, Statement::new(REMOVE_ENTRIES, [id.into()])]
        };
        for part in unused.chunks(100) {
            self.write_surely(part.iter().flat_map(remove).collect()).await?;
        }
        Ok(())
    }

    async fn read_conversations(&self, statement: Statement) -> Result<Vec<Conversation>, StoreError> {
        self.engine.read(statement).await?.iter_mut().map(Conversation::read).collect()
    }

    /// Leases that ended before this are free. All are if no other gateway uses the store.
    fn free_since_ms(&self) -> i64 {
        if self.is_shared() { self.now_ms() } else { i64::MAX }
    }

    /// Runs a transaction that may run twice, until its outcome is known.
    async fn write_surely(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        let mut tries = 1;
        loop {
            match self.engine.write(statements.clone()).await {
                Err(StoreError::Unknown(_)) if tries < TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }
}

/// Whether the first statement of a transaction returned a row.
fn has_changed(rows: &[Rows]) -> bool {
    rows.first().is_some_and(|it| !it.is_empty())
}
