//! Rehearsing: calls of guests are recorded, and repeated against some version of the plugin, with no cluster.
//!
//! Recording, in the order of a call: [`Recorder::begin`] puts a [`Session`] between the guest and its imports, which
//! notes what is asked and answered (`notes.rs`, `recorded.rs`). When the call has ended, the notes are dropped, unless it
//! failed, trapped or took long, which the `ring.rs` keeps, or a listener wants it (`listeners.rs`).
//!
//! Repeating: [`replay()`] calls the guest with the recorded arguments and answers (`replaying.rs`), and returns the
//! first point at which it parts from the recording. The format and the comparison are those of `flyball-recording`.

mod convert;
mod ended;
mod export;
mod listeners;
mod notes;
mod recorded;
mod recorder;
mod replay;
mod replaying;
mod ring;
mod shadow;

pub use ended::{of_cloud, of_reconcile, of_route};
pub use export::{NotExported, export, is_of_key};
pub use listeners::{Heard, Listener, Wanted};
pub use recorder::{Recorder, Session};
pub use replay::{Verdict, limits, replay};
pub use shadow::{Findings, Group, Shadow};
