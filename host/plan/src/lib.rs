//! What controllers would do to a cluster, found out without a write to it.
//!
//! A [`Server`] is an API server on loopback for the real host. Its reads fall through to a [`Base`]: a cluster, of which
//! nothing but reads and dry runs are asked, or objects of files. Its writes go into an overlay in memory, which every later
//! read and watch shows. So the host runs unmodified, and each controller sees what the others wrote: a Deployment yields a
//! ReplicaSet, and that one its Pods. At the end, the [`Outcome`] is the difference between the overlay and the base.
//!
//! In the order of a request: `server` checks the token and finds the object that the path names. `reads` answers from the
//! overlay or from the base. `writes` takes the object from the base into the overlay, writes there, has the result checked
//! by a dry run (`dry_run`), and lets `definitions` serve new kinds and `pods` play the kubelet. `overlay` keeps the objects
//! and `watches` their changes. `change` makes the change that the plan is given.
//! `outcome` compares, and `diff` shows the difference of an object.
//!
//! # Limits
//! The overlay holds only objects that were written, so its memory grows with the writes, which are bounded
//! ([`Options::max_writes`]), and not with the cluster. Lists go through in pages. The base is not watched: the plan sees
//! each kind as it was when it was first listed, and each object as it was when it was first read.

mod base;
mod change;
mod definitions;
mod diff;
mod dry_run;
mod events;
mod kinds;
mod outcome;
mod overlay;
mod pods;
mod reads;
mod scale;
mod server;
mod watches;
mod writes;

pub use base::{Base, ClusterBase, FileBase, FileError};
pub use diff::{diff, shown_change};
pub use outcome::{Action, Change, Outcome, Restart, Summary};
pub use server::{Options, Pods, Progress, Server};
