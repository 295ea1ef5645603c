//! The paths of the admin sockets of one user's hosts.

use std::path::{Path, PathBuf};

use crate::user_folders;

/// Returns the default path of the socket, in a private folder of the user; none if the user has no such folder. A
/// second host serves `admin-PID.sock` beside it.
pub(super) fn default() -> Option<PathBuf> {
    user_folders::runtime().map(|folder| folder.join("admin.sock"))
}

/// Returns the path beside the default one for the host of a process; none if the user has no folder for it.
pub(crate) fn of_process(process: u32) -> Option<PathBuf> {
    default().map(|path| numbered(&path, process))
}

/// Returns the path beside the default one for a process: `admin-PID.sock`.
pub(super) fn numbered(path: &Path, process: u32) -> PathBuf {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}-{process}.sock"))
}

/// Returns the sockets beside the default one, whether they are served or not.
pub(super) fn beside(path: &Path) -> Vec<PathBuf> {
    let prefix = format!(
        "{}-",
        path.file_stem().unwrap_or_default().to_string_lossy()
    );
    let is_numbered = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(&prefix);
        let number = number.and_then(|rest| rest.strip_suffix(".sock"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let entries = path.parent().map(std::fs::read_dir);
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(is_numbered)
        .collect();
    found.sort();
    found
}
