//! `FUZZ_TARGET=NAME fuzz FLAGS FOLDERS`: fuzzes a target with libFuzzer, which has its own flags: `-help=1` lists
//! them. `cargo xtask fuzz` builds and runs it.

#![no_main]
#![allow(
    unsafe_code,
    reason = "libFuzzer calls C functions, which its macros define"
)]

use std::sync::LazyLock;

use flyball_fuzz::{Mutator, TARGETS, Target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no target {name}"))
});

thread_local! {
    static MUTATOR: Mutator = Mutator::new(&TARGET).expect("the corpus can be read");
}

fuzz_target!(|input: &[u8]| {
    if let Err(broken) = (TARGET.feed)(input) {
        panic!("broken invariant: {broken}");
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 2 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mutated = MUTATOR.with(|mutator| mutator.mutate(&data[..size], seed));
    let length = mutated.len().min(max_size);
    data[..length].copy_from_slice(&mutated[..length]);
    length
});
