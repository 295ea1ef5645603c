//! The life of plugins: files and packages are followed, loaded, granted what the policy says, and started, reloaded or
//! removed.

pub(crate) mod describing;
pub(crate) mod folder;
pub(crate) mod host;
pub(crate) mod load;
pub(crate) mod package;
pub(crate) mod supervisor;
pub(crate) mod trial;
pub(crate) mod versions;
