//! The pods that a budget selects.
//!
//! Upstream: pkg/controller/disruption/disruption.go: getPodsForPdb.

use flyball_sdk::prelude::*;

use crate::views::{Budget, Pod};

/// Lists the pods of a budget. Emits an event if there are none.
///
/// # Errors
/// The selector is invalid. (The API server has accepted such selectors in the past.)
pub fn selected(host: &Host, budget: &Budget) -> Result<Vec<Pod>, Error> {
    let about = budget.meta.reference(Budget::KIND);
    let listed = list(host, budget);
    match &listed {
        Ok(pods) if pods.is_empty() => {
            host.emit(Event::normal(&about, "NoPods", "No matching pods found"));
        }
        Ok(_) => {}
        Err(error) => {
            let message = format!("Failed to get pods: {}", error.message());
            host.emit(Event::warning(&about, "NoPods", &message));
        }
    }
    listed
}

fn list(host: &Host, budget: &Budget) -> Result<Vec<Pod>, Error> {
    let selector = selector(budget)?;
    if selector.is_nothing() {
        return Ok(Vec::new());
    }
    host.list::<Pod>()
        .namespace(&budget.meta.namespace)
        .labels(&selector)
        .all()
}

/// Returns the selector of a budget. Without one, it selects nothing.
///
/// # Errors
/// As [`selected`].
pub fn selector(budget: &Budget) -> Result<LabelSelector, Error> {
    if let Some(error) = flyball_go_format::label_selector_error(&budget.selector) {
        return Err(Error::failed(error));
    }
    LabelSelector::of_json(budget.selector.text().as_bytes())
        .map_err(|error| Error::failed(error.to_string()))
}
