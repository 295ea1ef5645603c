//! Counts by labels, for metrics that are read at each scrape.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// A count for each combination of `N` labels. There are few, because no label comes from a guest.
#[derive(Debug)]
pub(crate) struct Counts<const N: usize>(Mutex<BTreeMap<[&'static str; N], u64>>);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<const N: usize> Counts<N> {
    pub(crate) fn add(&self, labels: [&'static str; N]) {
        *self.0.lock().entry(labels).or_default() += 1;
    }

    pub(crate) fn all(&self) -> BTreeMap<[&'static str; N], u64> {
        self.0.lock().clone()
    }
}
