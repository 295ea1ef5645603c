//! Sums: gauges that show the sum of the last values of all keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use prometheus::GaugeVec;

/// The size of a part without its label values and its key, in bytes.
const PART: usize = 128;

/// A gauge that shows the sum of its parts.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) gauges: GaugeVec,
    /// The last value of each key in each series.
    parts: Mutex<HashMap<(Vec<String>, String), f64>>,
    /// The size of all parts in bytes.
    size: AtomicUsize,
}

impl Sums {
    pub(super) fn new(gauges: GaugeVec) -> Self {
        Self {
            gauges,
            parts: Mutex::default(),
            size: AtomicUsize::new(0),
        }
    }

    /// The size of all parts in bytes.
    pub(super) fn size(&self) -> usize {
        self.size.load(Relaxed)
    }

    /// Sets the part of a key in the series with these label values. 0 removes the part. `room` returns the bytes that
    /// a new part may take; it is called for a new part only. Returns whether there was room.
    pub(super) fn set(
        &self,
        labels: &[&str],
        key: &str,
        value: f64,
        room: impl FnOnce() -> usize,
    ) -> prometheus::Result<bool> {
        let gauge = self.gauges.get_metric_with_label_values(labels)?;
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let own = PART + key.len() + labels.iter().map(String::len).sum::<usize>();
        let name = (labels, key.to_owned());
        let mut parts = self.parts.lock();
        let before = parts.get(&name).copied();
        if value == 0.0 {
            if parts.remove(&name).is_some() {
                self.size.fetch_sub(own, Relaxed);
            }
        } else {
            if before.is_none() {
                if own > room() {
                    return Ok(false);
                }
                self.size.fetch_add(own, Relaxed);
            }
            parts.insert(name, value);
        }
        gauge.add(value - before.unwrap_or(0.0));
        Ok(true)
    }
}
