//! The questions that skills ask while their operations run, and the answers until their gateways have delivered them.
//!
//! ```text
//! ask ──> open ──answer──> answered ──close──> removed
//!           ^                 │
//!           └─────reopen──────┘      Those of an earlier run, or of an operation that has ended, are neither.
//! ```

use crate::Store;
use crate::engine::{Row, Statement, StoreError};
use crate::operations::Fence;

/// The lock keeps another gateway from taking the operation before the question is there.
const ASK: &str = "INSERT INTO operation_questions (request_id, operation_id, run, number, question) \
                   SELECT $3, id, runs, $4, $5 FROM operations WHERE id = $1 AND epoch = $2 AND state = 2 FOR SHARE \
                   ON CONFLICT DO NOTHING";
const QUESTIONS: &str = "SELECT asked.request_id, asked.number, asked.question, asked.answer \
                         FROM operation_questions asked JOIN operations ON operations.id = asked.operation_id \
                         WHERE asked.operation_id = $1 AND asked.run = operations.runs AND operations.state IN (1, 2) \
                         ORDER BY asked.number LIMIT 64";
const FIND: &str = "SELECT operation_id, question FROM operation_questions WHERE request_id = $1";
const ANSWER: &str = "UPDATE operation_questions SET answer = $2 WHERE request_id = $1 AND answer IS NULL AND EXISTS \
                      (SELECT 1 FROM operations WHERE id = operation_questions.operation_id \
                      AND runs = operation_questions.run AND state IN (1, 2)) RETURNING request_id";
const FIND_ANSWER: &str = "SELECT answer FROM operation_questions WHERE request_id = $1";
const REOPEN: &str = "UPDATE operation_questions SET answer = NULL WHERE request_id = $1 RETURNING request_id";
const CLOSE: &str = "DELETE FROM operation_questions WHERE request_id = $1 RETURNING request_id";

const CLOSE_ALL: &str = "DELETE FROM operation_questions WHERE operation_id = $1 AND EXISTS \
                         (SELECT 1 FROM operations WHERE id = $1 AND epoch = $2 AND state = 2)";

/// A question of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredQuestion {
    /// Names it in its answer. Not guessable.
    pub request_id: String,
    /// The number of its event. Orders the questions of an operation.
    pub number: i64,
    /// The encoded question.
    pub question: Vec<u8>,
    /// The encoded answer. Empty while it is open.
    pub answer: Vec<u8>,
}

/// A question that somebody wants to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundQuestion {
    /// The operation whose skill asked it.
    pub operation_id: String,
    /// The encoded question.
    pub question: Vec<u8>,
}

impl Store {
    /// Stores an open question. That of an invalid claim is dropped, and one that is stored already stays as it is.
    ///
    /// # Errors
    /// The store failed.
    pub async fn ask(&self, fence: Fence<'_>, asked: &StoredQuestion) -> Result<(), StoreError> {
        let values = [
            fence.id.into(),
            fence.epoch.into(),
            asked.request_id.as_str().into(),
            asked.number.into(),
            asked.question.clone().into(),
        ];
        self.engine.write(vec![Statement::new(ASK, values)]).await.map(drop)
    }

    /// Returns the questions of an operation's current run, in their order, at most 64. None if the operation waits for its
    /// time or has ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn questions(&self, operation_id: &str) -> Result<Vec<StoredQuestion>, StoreError> {
        let mut rows = self.engine.read(Statement::new(QUESTIONS, [operation_id.into()])).await?;
        let read = |row: &mut Row| {
            let (request_id, number) = (row.text()?, row.integer()?);
            Ok(StoredQuestion { request_id, number, question: row.bytes()?, answer: row.bytes()? })
        };
        rows.iter_mut().map(read).collect()
    }

    /// Finds a question, answered or not.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find_question(&self, request_id: &str) -> Result<Option<FoundQuestion>, StoreError> {
        let row = self.engine.read(Statement::new(FIND, [request_id.into()])).await?.pop();
        row.map(|mut row| Ok(FoundQuestion { operation_id: row.text()?, question: row.bytes()? })).transpose()
    }

    /// Answers a question. Returns false if it is not open: somebody else has answered it, or its run has ended.
    ///
    /// # Errors
    /// The store failed.
    pub async fn answer(&self, request_id: &str, answer: &[u8]) -> Result<bool, StoreError> {
        let values = [request_id.into(), answer.to_owned().into()];
        match self.engine.write(vec![Statement::new(ANSWER, values)]).await {
            Ok(rows) => Ok(rows.first().is_some_and(|it| !it.is_empty())),
            Err(error @ StoreError::Unknown(_)) => {
                let row = self.engine.read(Statement::new(FIND_ANSWER, [request_id.into()])).await?.pop();
                let stored = row.map_or_else(|| Ok(Vec::new()), |mut row| row.bytes())?;
                if stored == answer { Ok(true) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a question again whose answer the worker refused.
    ///
    /// # Errors
    /// The store failed.
    pub async fn reopen_question(&self, request_id: &str) -> Result<(), StoreError> {
        self.engine.write(vec![Statement::new(REOPEN, [request_id.into()])]).await.map(drop)
    }

    /// Removes a question whose answer was delivered.
    ///
    /// # Errors
    /// The store failed.
    pub async fn close_question(&self, request_id: &str) -> Result<(), StoreError> {
        self.engine.write(vec![Statement::new(CLOSE, [request_id.into()])]).await.map(drop)
    }

    /// Removes the questions of a run that has ended. Has no effect if the claim is no longer valid.
    ///
    /// # Errors
    /// The store failed.
    pub async fn close_questions(&self, fence: Fence<'_>) -> Result<(), StoreError> {
        self.engine.write(vec![Statement::new(CLOSE_ALL, [fence.id.into(), fence.epoch.into()])]).await.map(drop)
    }
}
