//! `flyball canary`: a candidate that takes over the keys of a plugin step by step, and how it does.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use flyball_manager::{CanaryState, CanaryStatus, Did, NamedVersion};
use flyball_policy::{Calls, Interval, Rollout, Selector, Share, Step, Steps, Thresholds};
use flyball_types::printable;

use super::client::{RunningHost, json, unexpected_response};
use super::protocol::{Request, Response};
use crate::output::Format;

/// The part of a digest that is shown.
const DIGEST: usize = 12;

/// Let a candidate take over the keys of a plugin step by step, or show how it does
///
/// The candidate reconciles some of the plugin's keys, in place of the running version. It takes more keys when a step has
/// gone well, and none any more when it fails, traps, takes longer or writes more. `flyball promote` gives it all keys at
/// once.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The plugin's name
    plugin: String,
    /// The candidate to start: a WebAssembly component; without it, show how the canary does
    file: Option<PathBuf>,
    /// Shares of the keys, a step for each; without --namespaces and --selector, 5%,25%,50% by default
    #[arg(long, value_name = "SHARES", value_delimiter = ',', requires = "file")]
    keys: Vec<Share>,
    /// Begin with the keys in these namespaces
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "file")]
    namespaces: Vec<String>,
    /// Begin with the keys of objects with these labels, as in `team=x`
    #[arg(long, value_name = "LABELS", requires = "file")]
    selector: Option<Selector>,
    /// The least time of a step, as in `30s`; 5m by default
    #[arg(long, value_name = "TIME", requires = "file")]
    interval: Option<Interval>,
    /// The fewest reconciles of the candidate in a step; 10 by default
    #[arg(long, value_name = "NUMBER", requires = "file")]
    calls: Option<u64>,
    /// Go back when the share of failed reconciles is larger by this; 5% by default
    #[arg(long, value_name = "SHARE", requires = "file")]
    failures: Option<Share>,
    /// Go back when more reconciles of a step trap or reach a limit; 0 by default
    #[arg(long, value_name = "NUMBER", requires = "file")]
    traps: Option<u64>,
    /// Go back when its 99th percentile is longer by this factor; 2 by default
    #[arg(long, value_name = "FACTOR", requires = "file")]
    p99: Option<f64>,
    /// Go back when it writes more in a reconcile by this factor; 2 by default
    #[arg(long, value_name = "FACTOR", requires = "file")]
    writes: Option<f64>,
    /// Give all keys back to the running version
    #[arg(long, conflicts_with = "file")]
    abort: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    host: RunningHost,
}

impl Arguments {
    fn rollout(&self) -> Rollout {
        let namespaces = (!self.namespaces.is_empty()).then(|| Step::Namespaces {
            namespaces: self.namespaces.iter().cloned().collect(),
        });
        let selector = self.selector.clone();
        let selector = selector.map(|selector| Step::Selector { selector });
        let keys = self.keys.iter().copied().map(Step::Keys);
        let steps: Vec<Step> = namespaces.into_iter().chain(selector).chain(keys).collect();
        let usual = Thresholds::default();
        Rollout {
            steps: match steps.is_empty() {
                true => Steps::default(),
                false => Steps(steps),
            },
            interval: self.interval.unwrap_or_default(),
            calls: self.calls.map(Calls).unwrap_or_default(),
            thresholds: Thresholds {
                failures: self.failures.unwrap_or(usual.failures),
                traps: self.traps.unwrap_or(usual.traps),
                p99: self.p99.unwrap_or(usual.p99),
                writes: self.writes.unwrap_or(usual.writes),
            },
        }
    }
}

/// Carries out the command, and returns what it prints.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<String> {
    let rollout = arguments.rollout();
    let Arguments {
        plugin,
        file,
        abort,
        output,
        host,
        ..
    } = arguments;
    if abort {
        return Ok(host.perform(&Request::AbortCanary { plugin })? + "\n");
    }
    if let Some(file) = file {
        rollout.check().map_err(anyhow::Error::msg)?;
        // The host has another current folder.
        let absolute = std::path::absolute(&file);
        let file = absolute.with_context(|| format!("can't find {}", file.display()))?;
        let rollout = Box::new(rollout);
        let request = Request::StartCanary {
            plugin,
            file,
            rollout,
        };
        return Ok(host.perform(&request)? + "\n");
    }
    let Response::Canary(status) = host.send(&Request::Canary { plugin })? else {
        return Err(unexpected_response());
    };
    match output {
        Format::Json => json(&status),
        Format::Text => Ok(text(&status)),
    }
}

fn text(status: &CanaryStatus) -> String {
    let mut page = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(page, "{}", printable(text));
    };
    let by = if status.by_policy {
        ", by the policy"
    } else {
        ""
    };
    line(&format!(
        "candidate: {}{}{by}",
        status.origin,
        named(&status.candidate)
    ));
    line(&format!(
        "running:{}",
        named(&status.running).replacen(',', "", 1)
    ));
    let state = match status.state {
        CanaryState::Loading => "being loaded".to_owned(),
        CanaryState::Refused => "refused".to_owned(),
        CanaryState::Running => format!("step {} of {}", status.step, status.steps.len()),
        CanaryState::Promoted => "the candidate has all keys".to_owned(),
        CanaryState::WentBack => "went back: the candidate has no keys".to_owned(),
    };
    line(&match status.since.as_str() {
        "" => format!("state: {state}"),
        since => format!("state: {state}, since {since}"),
    });
    for (label, text) in [("reason", &status.reason), ("waits for", &status.waits_for)] {
        if let Some(text) = text {
            line(&format!("{label}: {text}"));
        }
    }
    for (number, step) in (1..).zip(&status.steps) {
        let mark = if number == status.step { "→" } else { " " };
        line(&format!("  {mark} {number}. {step}"));
    }
    if status.since.is_empty() {
        return page;
    }
    line("in this step:");
    for (name, did) in [
        ("running", &status.running_did),
        ("candidate", &status.candidate_did),
    ] {
        line(&format!("  {name:<9}  {}", in_words(did)));
    }
    if let Some(failure) = &status.candidate_did.last_failure {
        line(&format!("the candidate's last failure: {failure}"));
    }
    page
}

/// A version behind something else.
fn named(version: &NamedVersion) -> String {
    let digest = &version.digest[..version.digest.floor_char_boundary(DIGEST)];
    match (digest, version.version.as_str()) {
        ("", _) => String::new(),
        (digest, "") => format!(", sha256:{digest}"),
        (digest, own) => format!(", version {own}, sha256:{digest}"),
    }
}

fn in_words(did: &Did) -> String {
    let counts = &did.counts;
    let p99 = did.p99_ms.map(|p99| format!(", p99 {p99:.1} ms"));
    format!(
        "{} reconciles, {} failed, {} trapped, {} writes{}",
        counts.calls,
        counts.failures,
        counts.traps,
        counts.writes,
        p99.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn rollout(arguments: &[&str]) -> Result<Rollout, String> {
        let all = ["canary", "greeter", "new.wasm"].into_iter();
        let parsed = Cli::try_parse_from(all.chain(arguments.iter().copied()));
        let rollout = parsed
            .map_err(|error| error.to_string())?
            .arguments
            .rollout();
        rollout.check().map(|()| rollout)
    }

    #[test]
    fn the_steps_are_namespaces_labels_and_shares_in_this_order() {
        let arguments = [
            "--keys=5%,50%",
            "--namespaces=a,b",
            "--selector=team in (x, y)",
            "--interval=30s",
            "--writes=3",
        ];
        let rollout = rollout(&arguments).unwrap();
        let steps: Vec<String> = rollout.steps.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            steps,
            [
                "the keys in a, b",
                "the keys with team in (x, y)",
                "5% of the keys",
                "50% of the keys"
            ]
        );
        assert_eq!(rollout.interval.to_string(), "30s");
        assert_eq!(
            (rollout.thresholds.writes, rollout.thresholds.p99),
            (3.0, 2.0)
        );
        assert_eq!(super::tests::rollout(&[]), Ok(Rollout::default()));
        for wrong in ["--keys=50%,5%", "--keys=5", "--p99=0", "--interval=soon"] {
            assert!(super::tests::rollout(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_canary_is_shown_with_its_steps_and_what_both_versions_did() {
        let status: CanaryStatus = serde_json::from_value(json!({
            "running": {"digest": "00112233445566", "version": "1.0.0"},
            "candidate": {"digest": "aabbccddeeff00", "version": "1.1.0"},
            "origin": "/tmp/new.wasm", "byPolicy": false, "state": "running", "step": 2,
            "steps": ["5% of the keys", "25% of the keys"], "since": "2026-01-01T00:00:00Z", "elapsedMs": 1000,
            "intervalMs": 300000, "waitsFor": "299 s more", "reason": null,
            "thresholds": {"failures": "5%", "traps": 0, "p99": 2.0, "writes": 2.0},
            "runningDid": {"calls": 70, "failures": 1, "traps": 0, "writes": 9, "p99Ms": 3.21, "lastFailure": null},
            "candidateDid": {"calls": 12, "failures": 2, "traps": 0, "writes": 2, "p99Ms": null, "lastFailure": "a/b: \u{1b}no"},
        }))
        .unwrap();
        let text = text(&status);
        for line in [
            "candidate: /tmp/new.wasm, version 1.1.0, sha256:aabbccddeeff",
            "running: version 1.0.0, sha256:001122334455",
            "state: step 2 of 2, since 2026-01-01T00:00:00Z",
            "waits for: 299 s more",
            "  → 2. 25% of the keys",
            "  running    70 reconciles, 1 failed, 0 trapped, 9 writes, p99 3.2 ms",
            "  candidate  12 reconciles, 2 failed, 0 trapped, 2 writes",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
        assert!(!text.contains('\u{1b}'));
    }
}
