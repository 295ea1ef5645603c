//! Files that others may have written, and folders that nobody else may write to.
//!
//! - [`read`] reads plugins, policies and keys: whatever lies at their path, it neither blocks nor reads more than a limit.
//! - [`PrivateFolder`] holds what the host trusts at its next start: compiled code, kept versions and their record.

mod folder;
mod read;

pub use folder::{Entry, OthersMay, PrivateFolder};
pub use read::{read, read_to_string};
