//! The manager: wires reflectors, router, workqueues, guests and the writer together.
//!
//! In the order of the flow: [`Manager`] loads plugins (`load.rs`, granted by [`policy`]) and opens what they watch (`interest.rs`; kinds that come and go by `discovered.rs`). Each
//! becomes a `controller.rs`: deltas go through its `router.rs` into its `queue.rs`, and its workers call the guest, whose
//! imports a `call.rs` answers for the time of one call: reads by `views.rs`, changes by `writer.rs`, which talks to the API
//! server through `client.rs` as an `identity.rs`; tokens by `signer.rs`. With several processes, `lease.rs` elects the one that acts, and
//! `fence.rs` holds the writes of the others back.

mod call;
mod client;
mod controller;
mod describing;
mod discovered;
mod events;
mod fence;
mod graph;
mod identity;
mod interest;
mod lease;
mod load;
mod manager;
mod memo;
pub mod policy;
mod queue;
mod rate;
mod router;
mod services;
mod signer;
mod trial;
mod views;
mod writer;

pub use lease::{LeaderElection, LeaseLost};
pub use load::{BuiltIn, Grants, Origin, PluginError, plugins_in};
pub use manager::{Manager, ManagerError, Options};
pub use signer::{KeyError, Signer};
pub use trial::{Trial, try_out};

/// A mutex's value. A panic under one of our locks leaves whole values behind, so poisoning says nothing.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// An error with its causes, none of them twice.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
