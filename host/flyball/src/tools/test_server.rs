//! `flyball test-server`: the cluster in memory, for tests that are not written in Rust.

use std::io::{stdin, stdout};

use anyhow::Context;

/// Serves calls until the tests end.
pub(super) fn run() -> anyhow::Result<()> {
    // A mistake of a test panics in the cluster. The reply tells it, and the test reports it.
    std::panic::set_hook(Box::new(|_| {}));
    flyball_testserver::serve(stdin().lock(), stdout().lock())
        .context("can't serve the tests over standard input and output")
}
