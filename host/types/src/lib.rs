//! Types that the host and the guests share: kinds, field paths, masks, label selectors, errors of the API, durations,
//! IP addresses and plugin descriptions. No I/O, no clock, no runtime.

mod allocation;
mod catalogue;
mod columns;
pub mod description;
pub mod duration;
mod error;
mod error_chain;
mod event;
mod field_selector;
mod ip;
mod kind;
#[cfg(feature = "host")]
mod kubernetes_kinds;
mod listed;
mod mask;
#[cfg(feature = "host")]
pub mod nearest;
mod path;
mod path_set;
mod printable;
mod prune;
mod query;
mod reduce;
mod reference;
#[cfg(test)]
mod schema;
mod search;
mod selector;
mod text;
mod tree;

pub use allocation::size_of_block;
pub use catalogue::{Catalogue, DiscoveryFailure, ServedKind, Subresource};
pub use columns::{Columns, RowError};
pub use error::{ApiError, Effect, HostReason};
pub use error_chain::error_chain;
pub use event::{EventOptions, EventReference};
pub use field_selector::{FieldRequirement, FieldSelector, FieldSelectorError};
pub use ip::{cidr, ipv4};
pub use kind::{Kind, KindError, KindPattern, usual_plural};
#[cfg(feature = "host")]
pub use kubernetes_kinds::kubernetes_kinds;
pub use listed::listed;
pub use mask::{Mask, MaskError, Node};
pub use path::{FieldPath, Filter, PathError, Step, strings_in};
pub use path_set::{PathSet, Places};
pub use printable::{excerpt, printable, printable_json, quoted};
pub use prune::{MetadataSink, Prune, PruneError, separate};
pub use query::{ALL_KINDS, Projection, Query};
pub use reference::{Reference, ReferenceError};
pub use search::NotJson;
pub use selector::{LabelSelector, Labels, Operator, Requirement, SelectorError};
pub use text::{Text, read, reader};
