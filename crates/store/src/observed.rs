//! Measures what an engine does.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use crate::engine::{Engine, Rows, Statement, StoreError};

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It changes nothing.
    Read,
    /// It is durable when it ends.
    Write,
}

/// Hears about transactions when they end. Must not block.
pub trait StoreObserver: Debug + Send + Sync {
    /// A transaction ended after `duration`, which includes waiting for a connection or thread.
    fn transaction_ended(&self, access: Access, duration: Duration, failed: bool);
}

/// An engine whose transactions are measured.
#[derive(Debug)]
pub(crate) struct ObservedEngine {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) observer: Arc<dyn StoreObserver>,
}

impl ObservedEngine {
    async fn measure<T>(
        &self,
        access: Access,
        transaction: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let outcome = transaction.await;
        self.observer.transaction_ended(access, begun.elapsed(), outcome.is_err());
        outcome
    }
}

impl Engine for ObservedEngine {
    fn write(&self, statements: Vec<Statement>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        Box::pin(self.measure(Access::Write, self.engine.write(statements)))
    }

    fn read(&self, statement: Statement) -> BoxFuture<'_, Result<Rows, StoreError>> {
        Box::pin(self.measure(Access::Read, self.engine.read(statement)))
    }

    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }
}
