//! Shared reflectors and the indexed, masked cache that guests read.
//!
//! In the order of the flow:
//!
//! - [`connection`] connects to the API server;
//! - [`discovery`] finds a kind's resource in the API, [`resource`] builds its paths, and [`source`] sends the
//!   requests;
//! - `reflector` lists and watches. `decode` turns the responses into [`Object`]s and prunes them in the same pass;
//!   `protobuf` transcodes protobuf to JSON before that;
//! - `indexer` holds the objects and finds those that a [`ListQuery`] selects;
//! - [`informer`] shares a reflector and its cache among all watches of the same kind and scope, and sends each
//!   [`Delta`] to the subscribers that it concerns: `change` finds the values that they decide by, once for all of them
//!   (`shared_paths`);
//! - [`overlay`] holds a plugin's own writes, from the server's [`response`] until the reflector has seen them, and
//!   [`lister`] reads the cache merged with the overlay. `acknowledged` avoids decoding the same version twice.
//!
//! Only a reflector changes a cache, and only the writer changes an overlay. No lock is held across an await.

mod acknowledged;
mod backoff;
mod change;
pub mod connection;
mod core;
mod decode;
pub mod delta;
pub mod discovery;
mod factory;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod indexer;
pub mod informer;
mod intern;
pub mod lister;
pub mod object;
pub mod overlay;
mod postings;
mod protobuf;
mod query;
mod reachability;
mod reflector;
mod registrations;
pub mod resource;
pub mod response;
mod shared_paths;
pub mod source;
mod stream;

pub use change::{Seen, Select};
pub use connection::Connection;
pub use delta::{Batch, Delta, Deltas};
pub use discovery::{Catalogue, Discovery, DiscoveryError};
pub use factory::InformerFactory;
pub use informer::{Informer, InformerStatus, Interest};
pub use lister::{Lister, ListerError, Projection, View};
pub use object::{LabelSet, Object, OwnerReference, Uid};
pub use overlay::{Overlay, OverlayWriter};
pub use query::ListQuery;
pub use reachability::Reachability;
pub use reflector::{ListMode, Observe};
pub use resource::{ApiResource, PathSegmentError, Scope, Subresource};
pub use response::{ApiResponse, DecodeError};
pub use source::{Get, KubeSource, Source, SourceError};
