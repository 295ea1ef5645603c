//! Skipped tests, whose prerequisites are missing. Each is recorded, and `cargo xtask test` lists them at its end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};

/// The variable that names the file in which skipped tests are recorded.
pub const SKIPPED_FILE: &str = "FLYBALL_SKIPPED_TESTS";

/// Records that a test is skipped, or a part of it.
///
/// # Errors
/// [`SKIPPED_FILE`] isn't set. Without a list of skipped tests, a test whose prerequisites are missing fails.
pub fn skip(test: &str, reason: &str) -> anyhow::Result<()> {
    match std::env::var_os(SKIPPED_FILE) {
        Some(file) => record(Path::new(&file), test, reason),
        None => bail!("can't run {test}: {reason}"),
    }
}

fn record(file: &Path, test: &str, reason: &str) -> anyhow::Result<()> {
    let mut list = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .with_context(|| {
            format!(
                "can't open {} to record that {test} is skipped",
                file.display()
            )
        })?;
    // One write, so that lines of concurrent test processes don't mix.
    list.write_all(format!("{test}: {reason}\n").as_bytes())
        .with_context(|| format!("can't record in {} that {test} is skipped", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skipped_test_is_a_line_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");
        record(&file, "a_test", "no tool").unwrap();
        record(&file, "another_test", "no server").unwrap();
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines, "a_test: no tool\nanother_test: no server\n");
    }
}
