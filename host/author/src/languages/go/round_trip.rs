//! Makes every HTTP client of a plugin in Go send its requests through the host.
//!
//! All of them end in one function of the standard library, `(*http.Transport).RoundTrip`. Go's port for browsers has
//! another body for it, which calls `fetch`; its port for WASI has none. `go build -overlay` supplies one: the file
//! `net/http/roundtrip.go` is replaced by `round_trip.go`, which calls the SDK's package `wasihttp`. Nothing else of the
//! standard library and the runtime changes, and neither does the Go installation.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::go;
use crate::embedded;

/// The file of the standard library, and what it must have so that it can be replaced.
const REPLACED: &str = "src/net/http/roundtrip.go";
const FUNCTION: &str = "func (t *Transport) RoundTrip(req *Request) (*Response, error) {";
/// The new file.
const ROUND_TRIP: &str = include_str!("round_trip.go");

/// Writes the overlay of a build into its scratch folder, and returns its path.
pub(super) fn overlay(dir: &Path, work: &Path) -> Result<PathBuf> {
    let output = go(dir, ["env", "GOROOT"])
        .output()
        .context("can't run `go`")?;
    ensure!(
        output.status.success(),
        "can't find the standard library of Go: `go env` failed with the errors above"
    );
    let root = String::from_utf8_lossy(&output.stdout);
    let replaced = Path::new(root.trim()).join(REPLACED);
    check(&replaced)?;
    let new = std::path::absolute(work.join("round_trip.go"))?;
    embedded::write(&new, ROUND_TRIP.as_bytes())?;
    let overlay = std::path::absolute(work.join("overlay.json"))?;
    let text = json!({ "Replace": { replaced.display().to_string(): new } });
    embedded::write(&overlay, text.to_string().as_bytes())?;
    Ok(overlay)
}

/// Fails if the file is not the one that can be replaced.
fn check(replaced: &Path) -> Result<()> {
    let text = std::fs::read_to_string(replaced)
        .with_context(|| format!("can't read {}", replaced.display()))?;
    let declared = text
        .lines()
        .filter(|line| line.starts_with("func ") && line.ends_with('{'));
    ensure!(
        declared.eq([FUNCTION]),
        "can't send the requests of net/http through the host: {} has other functions than RoundTrip in this version of Go; \
         use Go 1.25 or 1.26",
        replaced.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_with_nothing_but_round_trip_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roundtrip.go");
        let known = format!(
            "package http\n\nfunc badRoundTrip(*Transport, *Request) (*Response, error)\n\n{FUNCTION}\n}}\n"
        );
        std::fs::write(&file, &known).unwrap();
        check(&file).unwrap();
        std::fs::write(&file, known + "func other() {\n}\n").unwrap();
        let error = check(&file).unwrap_err().to_string();
        assert!(error.contains("has other functions"), "{error}");
    }

    #[test]
    fn the_new_file_has_the_function() {
        assert!(ROUND_TRIP.contains(FUNCTION));
    }
}
