//! The memory of this process.

/// The resident memory of this process.
pub(crate) fn resident_mib() -> f64 {
    flyball_fakes::memory::resident() as f64 / f64::from(1 << 20)
}
