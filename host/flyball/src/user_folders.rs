//! The folders of this user that Flyball keeps files in, as the XDG Base Directory Specification names them. A user
//! without a home directory may have none of them.

use std::path::PathBuf;

/// Returns the folder of state that outlives a restart.
pub(crate) fn state() -> Option<PathBuf> {
    in_variable_or_home("XDG_STATE_HOME", ".local/state")
}

/// Returns the folder of files that can be created again.
pub(crate) fn cache() -> Option<PathBuf> {
    in_variable_or_home("XDG_CACHE_HOME", ".cache")
}

/// Returns the folder of sockets, or else the one of state.
pub(crate) fn runtime() -> Option<PathBuf> {
    let folder = variable("XDG_RUNTIME_DIR").map(|folder| folder.join("flyball"));
    folder.or_else(state)
}

/// Returns the folder in the one that a variable names, or else in its default, which is relative to `$HOME`.
fn in_variable_or_home(name: &str, default: &str) -> Option<PathBuf> {
    let folder = variable(name).or_else(|| variable("HOME").map(|home| home.join(default)));
    folder.map(|folder| folder.join("flyball"))
}

/// Returns the path in a variable; none if it is empty.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
