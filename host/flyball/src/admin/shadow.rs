//! `flyball shadow`: a candidate beside a running plugin, and where the two differ.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use flyball_manager::{ShadowState, ShadowStatus};
use flyball_types::printable;

use super::client::{RunningHost, json, unexpected_response};
use super::protocol::{Request, Response};
use super::record::duration;
use crate::output::Format;

/// The part of a digest that is shown.
const DIGEST: usize = 12;

/// Run a candidate in the shadow of a plugin, or show where the two differ
///
/// The candidate is called with what the running version was called with and answered, in idle time, and writes nothing.
/// `flyball promote` puts it into the place of the plugin's file.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The plugin's name
    plugin: String,
    /// The candidate to start, in place of an earlier one: a WebAssembly component; without it, show where they differ
    file: Option<PathBuf>,
    /// Run it for this time, as in `10m`
    #[arg(long = "for", value_name = "TIME", value_parser = duration, requires = "file")]
    duration: Option<Duration>,
    /// End the candidate
    #[arg(long, conflicts_with = "file")]
    drop: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    host: RunningHost,
}

/// Carries out the command, and returns what it prints.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<String> {
    let Arguments {
        plugin,
        file,
        duration,
        drop,
        output,
        host,
    } = arguments;
    if drop {
        return Ok(host.perform(&Request::EndShadow { plugin })? + "\n");
    }
    if let Some(file) = file {
        // The host has another current folder.
        let absolute = std::path::absolute(&file);
        let file = absolute.with_context(|| format!("can't find {}", file.display()))?;
        let for_ms = duration.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let request = Request::StartShadow {
            plugin,
            file,
            for_ms,
        };
        return Ok(host.perform(&request)? + "\n");
    }
    let Response::Shadow(status) = host.send(&Request::Shadow { plugin })? else {
        return Err(unexpected_response());
    };
    match output {
        Format::Json => json(&status),
        Format::Text => Ok(text(&status)),
    }
}

fn text(status: &ShadowStatus) -> String {
    let mut page = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(page, "{}", printable(text));
    };
    let digest = &status.digest[..status.digest.floor_char_boundary(DIGEST)];
    let file = status.file.display();
    line(&match digest {
        "" => format!("candidate: {file}"),
        _ => format!(
            "candidate: {file}, version {}, sha256:{digest}",
            status.version
        ),
    });
    let state = match status.state {
        ShadowState::Loading => "being loaded",
        ShadowState::Running => "running",
        ShadowState::Ended => "ended",
    };
    let reason = status.reason.as_ref().map(|reason| format!(": {reason}"));
    line(&format!("state: {state}{}", reason.unwrap_or_default()));
    let found = &status.findings;
    let others: u64 = found.groups.iter().map(|group| group.calls).sum();
    line(&format!(
        "calls: {}, of which {} the same and {others} otherwise; {} were left out",
        found.calls, found.same, found.left_out
    ));
    if !status.description.is_empty() {
        line("its description differs:");
        status
            .description
            .iter()
            .for_each(|field| line(&format!("    {field}")));
    }
    for group in &found.groups {
        line(&format!("{}: {}", group.calls, group.how));
        line(&format!("    keys: {}", group.keys.join(", ")));
        group
            .example
            .lines()
            .for_each(|text| line(&format!("    {text}")));
    }
    page
}

#[cfg(test)]
mod tests {
    use flyball_manager::ShadowStatus;

    use super::*;

    #[test]
    fn differences_are_shown_by_their_groups() {
        let status: ShadowStatus = serde_json::from_value(serde_json::json!({
            "file": "/tmp/new.wasm", "digest": "0123456789abcdef", "version": "1.1.0", "state": "running", "reason": null,
            "description": ["+ concurrency: 2"],
            "findings": {"calls": 5, "same": 3, "leftOut": 1, "groups": [
                {"how": "asks more (lister.get)", "calls": 2, "keys": ["a/x"], "example": "a/x: at step 1:\n  \u{1b}[2J"},
            ]},
        }))
        .unwrap();
        let text = text(&status);
        for line in [
            "candidate: /tmp/new.wasm, version 1.1.0, sha256:0123456789ab",
            "calls: 5, of which 3 the same and 2 otherwise; 1 were left out",
            "    + concurrency: 2",
            "2: asks more (lister.get)",
            "    keys: a/x",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
}
