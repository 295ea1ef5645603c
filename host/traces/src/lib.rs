//! Traces: a change of an object, how long its keys were queued, the reconciles that it caused, their calls of the host,
//! their requests, and the changes that these caused in turn. One rollout is one trace, across controllers.
//!
//! ```text
//! change Deployment demo/web            somebody changed it: the trace begins
//! ├─ queue                              how long the key waited
//! └─ reconcile deployment-controller
//!    ├─ lister.list ReplicaSet
//!    └─ writer.run
//!       └─ create ReplicaSet            waits for the rate limiter are in it
//!          ├─ POST                      continued by the API server
//!          └─ change ReplicaSet demo/web-7d9f   the watch reports the write
//!             ├─ queue
//!             └─ reconcile replicaset-controller …
//! ```
//!
//! Read in this order: `options.rs` (the configuration), `trace.rs` ([`Tracer`], [`Trace`] and [`Span`]), `causes.rs`
//! (which write a change comes from), `export.rs` (spans on their way to the collector).
//!
//! Without a configuration, a [`Tracer`] is nothing, and so is each trace: what remains of the cost is a test for that.

mod causes;
mod export;
mod options;
mod trace;

pub use causes::{Change, ChangeType, Target, Writing};
pub use export::{Exporting, TracingError, start};
pub use options::{OptionsError, TracingOptions};
pub use trace::{Span, SpanOptions, Trace, Tracer, WorkId, current, within};
