//! Files that others may have written, and folders that nobody else may write to.
//!
//! - [`read`] reads plugins, policies and keys. It never blocks or reads more than a limit, even if the path names a
//!   FIFO or a device.
//! - [`PrivateFolder`] holds the files that the host trusts at its next start: compiled code, kept versions and their
//!   record.

mod folder;
mod read;

pub use folder::{FolderEntry, OthersMay, PrivateFolder};
pub use read::{read, read_to_string};
