//! Who is there to be called: each place is started once, when it is first needed, and again when it has to be. Only one
//! has the machine at a time; the others are stopped.

use std::collections::HashMap;

use crate::place::{Place, Pythons, Running};

/// The places that run.
pub(crate) struct Stage {
    pythons: Pythons,
    running: HashMap<Place, Running>,
    /// The one that is not stopped.
    awake: Option<Place>,
    /// Those that could not be started are not tried again.
    refused: HashMap<Place, String>,
}

impl Stage {
    pub(crate) fn new(pythons: &Pythons) -> Self {
        Self { pythons: pythons.clone(), running: HashMap::new(), awake: None, refused: HashMap::new() }
    }

    /// A place that runs while all others are stopped, or why it does not.
    pub(crate) async fn place(&mut self, place: Place) -> Result<&Running, String> {
        if self.awake != Some(place) {
            if let Some(before) = self.awake.take().and_then(|before| self.running.get(&before)) {
                before.stop().await;
            }
            if let Some(running) = self.running.get(&place) {
                running.go_on().await;
            }
            self.awake = Some(place);
        }
        if let Some(reason) = self.refused.get(&place) {
            return Err(reason.clone());
        }
        if !self.running.contains_key(&place) {
            match place.start(&self.pythons).await {
                Ok(running) => self.running.insert(place, running),
                Err(reason) => {
                    self.refused.insert(place, reason.clone());
                    return Err(reason);
                }
            };
        }
        self.running.get(&place).ok_or_else(|| "it did not start".to_owned())
    }

    /// Ends one that is busy with calls that nobody waits for. It starts afresh when it is needed.
    pub(crate) fn end(&mut self, place: Place) {
        self.running.remove(&place);
    }
}
