//! Counts the bytes that the host holds for one plugin beside its instances: cursors, batches, and answers of the API
//! server while they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use flyball_types::ApiError;

/// The bytes that the host holds for a plugin, up to a limit.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    limit: usize,
}

/// A part of a budget that is in use. Dropping it frees the part.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
        })
    }

    /// Returns an empty charge, which [`Charge::grow`] adds to.
    pub fn charge(self: &Arc<Self>) -> Charge {
        Charge {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), ApiError> {
        let grow = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used
            .fetch_update(Relaxed, Relaxed, grow)
            .map(drop)
            .map_err(|used| {
                ApiError::full(format!(
                    "the host holds {used} bytes for this plugin, and {bytes} more would exceed its limit of {} \
                     (`held` in the policy)",
                    self.limit
                ))
            })
    }
}

impl Charge {
    /// Adds bytes.
    ///
    /// # Errors
    /// `Full` if the budget has fewer left. Nothing is added then.
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Frees some of the bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.used.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_share_a_budget_and_free_it_when_they_are_dropped() {
        let budget = Budget::new(100);
        let (mut one, mut other) = (budget.charge(), budget.charge());
        one.grow(60).unwrap();
        let error = other.grow(60).unwrap_err();
        assert_eq!((error.reason.as_str(), budget.used()), ("Full", 60));
        assert!(error.message.contains("limit of 100"), "{error}");
        other.grow(40).unwrap();
        one.shrink(10);
        assert_eq!(budget.used(), 90);
        drop(one);
        assert_eq!(budget.used(), 40);
        assert!(other.grow(usize::MAX).is_err());
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
