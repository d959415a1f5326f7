//! The share that a request other than a call takes of a pool.

use http::Extensions;
use openskill_identity::shares::Share;

use super::operation;
use crate::call::principal::Principal;
use crate::state::limits::{Limits, SharedLimit};

/// Takes a request's share of its pool. None if it has no pool. The error is the limit that its principal has reached.
pub(crate) fn take_share(
    limits: &Limits,
    administrator_limits: &Limits,
    extensions: &Extensions,
) -> Result<Option<Share>, SharedLimit> {
    let Some(limit) = operation(extensions).and_then(|it| it.limit) else { return Ok(None) };
    let principal = extensions.get::<Principal>().cloned().unwrap_or_default();
    let limits = if principal.is_admin() { administrator_limits } else { limits };
    limits.pool(limit).take(principal.shared_name(), 1).map(Some).ok_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::operation::Operation;

    static PAGE: Operation = Operation { limit: Some(SharedLimit::Pages), ..Operation::http("GET /page") };

    #[test]
    fn one_principal_never_takes_all_places_and_gets_its_own_back() {
        let limits = Limits::default();
        let ask = |operation: Option<&'static Operation>, principal: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(Principal::from_name(principal));
            if let Some(operation) = operation {
                extensions.insert(operation);
            }
            take_share(&limits, &Limits::default(), &extensions)
        };
        let mut sending = Vec::new();
        let refused = loop {
            match ask(Some(&PAGE), "greedy") {
                Ok(share) => sending.push(share),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, SharedLimit::Pages);
        assert!(sending.len() * 5 <= SharedLimit::Pages.bound() * 4 + 5, "{}", sending.len());
        assert!(ask(None, "greedy").is_ok(), "which counts towards nothing");
        assert!(ask(Some(&PAGE), "honest").is_ok());
        sending.pop();
        assert!(ask(Some(&PAGE), "greedy").is_ok());
    }
}
