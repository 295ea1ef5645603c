//! The dashboard of a running host: pages for a browser, and the events that keep them current.
//!
//! It knows no plugin and no Kubernetes. A [`Source`] answers its queries with JSON documents; the pages in `assets/`
//! know what is in them. The dashboard changes nothing: all that it serves is read.
//!
//! A request passes through these files in this order: `local.rs` serves a loopback port for one user (a host serves
//! [`Dashboard`] on its own port instead), `guard.rs` refuses requests that another site caused, `session.rs` knows who
//! may ask, `pages.rs` chooses the response, `assets.rs` has the files, and `stream.rs` sends events from what `feed.rs`
//! and the source say, reduced by `changes.rs` to what has changed.

mod assets;
mod changes;
mod feed;
mod guard;
mod local;
mod pages;
mod session;
mod source;
mod stream;

pub use local::{BindError, LocalServer, Warning};
pub use pages::{Dashboard, PageBody, SignIn};
pub use source::{Followed, Problem, Query, Source, SourceSlot};
pub use stream::Events;

/// The path below which everything of the dashboard lies.
pub const ROOT: &str = "/dashboard";
