//! Counts the bytes that the host holds for one plugin in addition to its instances: cursors, batches until they have
//! run, answers of the API server until the guest has them, and handles of `wasi:http`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
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

/// Bytes that the host holds for a plugin until the guest has them.
#[derive(Debug)]
pub struct Held {
    pub bytes: Bytes,
    /// The charge on the budget; none if the bytes are not counted.
    charge: Option<Charge>,
}

impl Held {
    /// Bytes with the charge that counts them.
    pub fn new(bytes: Bytes, charge: Charge) -> Self {
        Self {
            bytes,
            charge: Some(charge),
        }
    }

    /// Returns the bytes. Their charge is added to `to`, which must be of the same budget.
    pub fn charged_to(self, to: &mut Charge) -> Bytes {
        if let Some(charge) = self.charge {
            to.absorb(charge);
        }
        self.bytes
    }

    /// Replaces the bytes by fewer.
    pub fn reduced(self, bytes: Bytes) -> Self {
        let Self {
            bytes: before,
            mut charge,
        } = self;
        if let Some(charge) = &mut charge {
            charge.shrink(before.len().saturating_sub(bytes.len()));
        }
        Self { bytes, charge }
    }
}

/// Bytes that are not counted.
impl From<Bytes> for Held {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            charge: None,
        }
    }
}

impl Budget {
    /// Creates a budget of `limit` bytes.
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
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// `Full` if the budget has fewer left. Nothing is added then.
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Grows or shrinks to this number of bytes.
    ///
    /// # Errors
    /// `Full` if the budget has too few bytes left. The size is then unchanged.
    pub fn resize(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.shrink(self.bytes - bytes);
        Ok(())
    }

    /// Moves some of the bytes to a charge of their own.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            budget: self.budget.clone(),
            bytes,
        }
    }

    /// Takes over the bytes of another charge of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        self.bytes += std::mem::take(&mut other.bytes);
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
        assert!(one.resize(61).is_err());
        one.resize(20).unwrap();
        one.resize(50).unwrap();
        assert_eq!(budget.used(), 90);
        drop(one);
        assert_eq!(budget.used(), 40);
        assert!(other.grow(usize::MAX).is_err());
        let part = other.split(10);
        drop(other);
        assert_eq!(budget.used(), 10);
        let mut whole = budget.charge();
        whole.absorb(part);
        assert_eq!((whole.bytes(), budget.used()), (10, 10));
        drop(whole);
        let mut charge = budget.charge();
        charge.grow(10).unwrap();
        let held = Held::new(Bytes::from_static(&[0; 10]), charge);
        let held = held.reduced(Bytes::from_static(&[0; 3]));
        assert_eq!(budget.used(), 3);
        drop(held);
        assert_eq!(budget.used(), 0);
    }
}
