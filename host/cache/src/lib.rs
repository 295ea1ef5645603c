//! Shared reflectors and the indexed, masked cache that guests read.
//!
//! In the order of the flow:
//!
//! - [`connection`] reaches the API server;
//! - [`discovery`] finds where a kind lies in the API, [`resource`] builds its paths, [`source`] makes the requests;
//! - `reflector` lists and watches, `decode` makes [`Object`]s of what comes and prunes it on the way; what comes in
//!   `protobuf` becomes JSON first;
//! - `indexer` keeps the objects, and finds them by what a [`ListQuery`] asks;
//! - [`informer`] shares one reflector and its cache between all who watch the same, and tells them of each [`Delta`];
//! - [`overlay`] keeps what a plugin wrote, by the server's [`answer`], until the reflector has seen it, and [`lister`]
//!   reads both as one; `acknowledged` spares what comes as an answer and as an event from being decoded twice.
//!
//! Only a reflector writes a cache and only the writer writes an overlay; everyone else reads. No lock is held across an
//! await.

mod acknowledged;
pub mod answer;
mod backoff;
pub mod connection;
mod core;
mod decode;
pub mod delta;
pub mod discovery;
mod factory;
pub mod fuzzing;
mod indexer;
pub mod informer;
mod intern;
mod link;
pub mod lister;
pub mod object;
pub mod overlay;
mod postings;
mod protobuf;
mod query;
mod reflector;
pub mod resource;
pub mod source;
mod stream;

pub use answer::Answer;
pub use connection::Connection;
pub use decode::DecodeError;
pub use delta::{Batch, Delta, Deltas};
pub use discovery::{Catalogue, Discovery, DiscoveryError};
pub use factory::InformerFactory;
pub use informer::{Informer, InformerStatus, Interest};
pub use lister::{Lister, ListerError, Projection, View};
pub use object::{LabelSet, Object, OwnerReference, Uid};
pub use overlay::{Overlay, OverlayWriter};
pub use query::ListQuery;
pub use resource::{ApiResource, PathSegmentError, Scope, Subresource};
pub use source::{Get, KubeSource, Source, SourceError};
