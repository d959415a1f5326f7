//! The calls in flight, for those who list or cancel them. Admission bounds their number.

use std::sync::Arc;

use ahash::HashMap;

use crate::call::request::Call;
use crate::state::striped::Striped;

/// The calls in flight, by their addresses: their ids may repeat.
#[derive(Debug)]
pub(crate) struct CallsInFlight(Striped<HashMap<usize, Arc<Call>>>);

/// Keeps a call in the list until it is dropped.
#[derive(Debug)]
pub(crate) struct ListedCall {
    calls: Arc<CallsInFlight>,
    address: usize,
}

impl Default for CallsInFlight {
    fn default() -> Self {
        Self(Striped::new(HashMap::default))
    }
}

impl CallsInFlight {
    /// Lists a call until the returned guard is dropped.
    pub(crate) fn list(self: &Arc<Self>, call: &Arc<Call>) -> ListedCall {
        let address = Arc::as_ptr(call).addr();
        self.0.lock(&address).insert(address, Arc::clone(call));
        ListedCall { calls: Arc::clone(self), address }
    }

    /// Returns the calls that `is_wanted` accepts, the oldest first.
    pub(crate) fn find(&self, is_wanted: impl Fn(&Call) -> bool) -> Vec<Arc<Call>> {
        let mut found = Vec::new();
        for stripe in self.0.all() {
            found.extend(stripe.values().filter(|it| is_wanted(it)).cloned());
        }
        found.sort_by_key(|it| it.received);
        found
    }
}

impl Drop for ListedCall {
    fn drop(&mut self) {
        // Drops the call after the lock, because that may take long.
        let _call = self.calls.0.lock(&self.address).remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::InvokeRequest;

    use super::*;
    use crate::call::request::RequestContext;

    #[test]
    fn calls_with_the_same_id_are_listed_in_order_until_they_end() {
        let calls = Arc::<CallsInFlight>::default();
        let call = || {
            let request = InvokeRequest { call_id: "same".to_owned(), ..InvokeRequest::default() };
            Arc::new(Call::new(request, RequestContext::unknown()))
        };
        let (first, second) = (call(), call());
        let (of_second, of_first) = (calls.list(&second), calls.list(&first));
        let found = calls.find(|it| it.call_id == "same");
        assert!(matches!(&found[..], [a, b] if Arc::ptr_eq(a, &first) && Arc::ptr_eq(b, &second)), "{found:?}");
        assert!(calls.find(|it| it.call_id == "other").is_empty());
        drop(of_first);
        assert!(matches!(&calls.find(|_| true)[..], [it] if Arc::ptr_eq(it, &second)));
        drop(of_second);
        assert!(calls.find(|_| true).is_empty());
    }
}
