//! The manager: wires reflectors, router, workqueues, guests and the writer together.
//!
//! In the order of the flow: [`Manager`] has a `supervisor.rs` that follows folders (`folder.rs`), loads plugins (`load.rs`),
//! pulls those that the policy names as packages (`package.rs`),
//! decides by the operator's [`policy`] what each is granted (`grant.rs`), and keeps the right versions running (`versions.rs`
//! knows those before). `host.rs` opens what a version watches (`interest.rs`; kinds that come and go by `discovered.rs`) and
//! starts it. Each
//! becomes a `controller.rs`: deltas go through its `router.rs` into its `queue.rs`, and its workers call the guest, whose
//! imports a `call.rs` answers for the time of one call: reads by `views.rs`, changes by `writer.rs`, which talks to the API
//! server through `client.rs` as an `identity.rs`; tokens by `signer.rs`. A `guard.rs` holds each plugin within its
//! limits: what it says by a `gate.rs`, a plugin that fails on every key by its `quarantine.rs`; `usage.rs` tells of it. With
//! several processes, `lease.rs` elects the one that acts, and `fence.rs` holds the writes of the others back. Operators ask a
//! running manager through its [`Control`].

mod api;
mod control;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod manager;
mod plugins;
pub mod policy;
mod reads;
mod runtime;
mod signer;
mod writer;

pub use api::lease::{LeaderElection, LeaseLost};
pub use control::{Control, ControlError, Described, PluginState, PluginStatus};
pub use manager::{Manager, ManagerError, Options, Sources};
pub use plugins::load::{BuiltIn, PluginError};
pub use plugins::trial::{Trial, try_out};
pub use policy::grant::{ACCOUNTS_NAMESPACE, Grants};
pub use runtime::history::{Performance, Reconciled};
pub use signer::{KeyError, Signer};

/// A mutex's value. A panic under one of our locks leaves whole values behind, so poisoning says nothing.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
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
