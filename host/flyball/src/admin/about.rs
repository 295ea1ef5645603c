//! The process and its machine, for `flyball debug bundle`.

use std::collections::BTreeMap;

use flyball_serving::KUBERNETES;
use serde::{Deserialize, Serialize};

/// Files of the system that say what the process may use, with their names in [`About::machine`].
const FILES: [(&str, &str); 5] = [
    ("kernel", "/proc/sys/kernel/osrelease"),
    ("pressure", "/proc/pressure/cpu"),
    ("memory limit", "/sys/fs/cgroup/memory.max"),
    ("memory in use", "/sys/fs/cgroup/memory.current"),
    ("CPU limit", "/sys/fs/cgroup/cpu.max"),
];

/// The process and its machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    /// The version of Flyball.
    version: String,
    /// The release of Kubernetes that the built-in controllers stand for.
    kubernetes: String,
    /// The name of the process in its lease and in its User-Agent.
    identity: String,
    /// When it started, in RFC 3339.
    started: String,
    os: String,
    architecture: String,
    /// The cores that it may use.
    cores: usize,
    /// The flags on the command line. Values that may be secrets are left out.
    flags: BTreeMap<String, String>,
    /// What the system says; files that it lacks are left out.
    machine: BTreeMap<String, String>,
}

impl About {
    pub(crate) fn new(identity: &str, flags: BTreeMap<String, String>) -> Self {
        let read = |(name, path): (&str, &str)| {
            let text = std::fs::read_to_string(path).ok()?;
            Some((name.to_owned(), text.trim().to_owned()))
        };
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kubernetes: KUBERNETES.to_owned(),
            identity: identity.to_owned(),
            started: format!("{:.0}", jiff::Timestamp::now()),
            os: std::env::consts::OS.to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            flags,
            machine: FILES.into_iter().filter_map(read).collect(),
        }
    }
}
