//! The folders of scenarios and goldens.

use std::path::{Path, PathBuf};

/// The folder of the built-in controllers. Each has its scenarios and goldens in its own folder.
pub fn controllers() -> PathBuf {
    own().join("../../guests/controllers")
}

/// The folder of the goldens of planes' metrics.
pub(crate) fn metrics() -> PathBuf {
    own().join("goldens/metrics")
}

fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
