//! The edges of the control flow that an input has reached, in builds that count them.
//!
//! `cargo xtask fuzz` compiles the workspace's crates with LLVM's inline counters: one byte for each edge of the
//! control flow. The instrumented code hands the counters over when the program starts. Other builds, such as the
//! tests', have no counters, and a run then follows only the shapes of outcomes.

#![allow(
    unsafe_code,
    reason = "LLVM's interface to the counters is a C function with two pointers"
)]

use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

static START: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Called by the instrumented code before `main`, by each of its modules with the same range: the
/// linker has joined the counters of all modules.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    START.store(start.cast(), Relaxed);
    LENGTH.store(stop.addr().saturating_sub(start.addr()), Release);
}

/// The counters of this program; empty in a build without them.
fn counters() -> &'static [AtomicU8] {
    let length = LENGTH.load(Acquire);
    if length == 0 {
        return &[];
    }
    // SAFETY: the range is a section of the program, and stays for as long as it runs. The
    // instrumented code writes the counters on all threads, hence the atomics.
    unsafe { std::slice::from_raw_parts(START.load(Relaxed), length) }
}

/// The places that a run has reached, each with the magnitudes of how often one input did.
#[derive(Default)]
pub(crate) struct Coverage {
    /// By counter. A bit stands for a magnitude.
    seen: Vec<u8>,
    reached: usize,
}

impl Coverage {
    /// Forgets what was counted so far. Call it before an input is fed.
    pub(crate) fn begin() {
        for counter in counters() {
            counter.store(0, Relaxed);
        }
    }

    /// Adds what was counted since [`Coverage::begin`]. Returns whether any of it is new.
    pub(crate) fn add(&mut self) -> bool {
        let counters = counters();
        self.seen.resize(counters.len(), 0);
        let mut is_new = false;
        for (seen, counter) in self.seen.iter_mut().zip(counters) {
            let magnitude = magnitude(counter.load(Relaxed));
            if magnitude & !*seen != 0 {
                self.reached += usize::from(*seen == 0);
                *seen |= magnitude;
                is_new = true;
            }
        }
        is_new
    }

    /// The number of places that were reached, and of all that are counted.
    pub(crate) fn reached(&self) -> (usize, usize) {
        (self.reached, counters().len())
    }
}

/// The magnitude of a count as one bit, so that one more turn of a long loop is nothing new.
fn magnitude(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..8 => 8,
        8..16 => 16,
        16..32 => 32,
        32..128 => 64,
        128.. => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_magnitude_is_new_once() {
        let bits: Vec<u8> = [0, 1, 2, 3, 5, 9, 20, 50, 200].map(magnitude).into();
        assert_eq!(bits, [0, 1, 2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(magnitude(4), magnitude(7));
    }
}
