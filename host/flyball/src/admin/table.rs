//! Responses of the host as text tables.

use flyball_manager::{PluginState, PluginStatus, Reconciled};

/// Aligns the columns. The last column is not padded.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| Some(row.get(column)?.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns a table with a line for each plugin; below it, why a plugin does not run, and its last error.
pub(super) fn status(plugins: &[PluginStatus]) -> String {
    let titles = [
        "PLUGIN",
        "VERSION",
        "DIGEST",
        "STATE",
        "QUEUED",
        "RECONCILES",
        "PER SECOND",
        "ERRORS",
        "P50",
        "P99",
        "MEMORY",
        "LAST REASON",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for plugin in plugins {
        let work = &plugin.performance;
        let state = match (plugin.state, plugin.rolled_back) {
            (state, true) => format!("{} (rolled back)", state_name(state)),
            (state, false) => state_name(state).to_owned(),
        };
        rows.push(vec![
            plugin.name.clone(),
            plugin.version.clone(),
            plugin.digest.chars().take(12).collect(),
            state,
            plugin.queued.to_string(),
            work.reconciles.to_string(),
            format!("{:.1}", work.per_second),
            work.errors.to_string(),
            milliseconds(work.p50_ms),
            milliseconds(work.p99_ms),
            mebibytes(plugin.memory),
            work.last_why.clone().unwrap_or_default(),
        ]);
    }
    let mut text = columns(&rows);
    for plugin in plugins {
        if let Some(reason) = &plugin.reason {
            text.push_str(&format!("\n{}: {reason}\n", plugin.name));
        }
        if let Some(error) = &plugin.performance.last_error {
            text.push_str(&format!("\n{}: last error: {error}\n", plugin.name));
        }
    }
    text
}

/// Returns a table with a line for each reconcile.
pub(super) fn why(reconciles: &[Reconciled]) -> String {
    let titles = ["AT", "PLUGIN", "KEY", "WHY", "TOOK", "OUTCOME"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for done in reconciles {
        let outcome = match (&done.failed, done.wrote.as_slice()) {
            (Some(error), _) => format!("failed: {error}"),
            (None, []) => "no writes".to_owned(),
            (None, wrote) => wrote.join(", "),
        };
        let more = if done.coalesced > 0 {
            format!(" (and {} more)", done.coalesced)
        } else {
            String::new()
        };
        rows.push(vec![
            done.at.clone(),
            done.plugin.clone(),
            done.key.clone(),
            format!("{}{more}", done.why),
            milliseconds(done.took_ms),
            outcome,
        ]);
    }
    columns(&rows)
}

fn state_name(state: PluginState) -> &'static str {
    match state {
        PluginState::Running => "running",
        PluginState::Quarantined => "quarantined",
        PluginState::Standby => "standby",
        PluginState::Starting => "starting",
        PluginState::Pending => "pending",
        PluginState::Failed => "failed",
    }
}

fn milliseconds(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2} ms")
    } else {
        format!("{value:.0} ms")
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_without_trailing_spaces() {
        let rows = [
            vec!["a".to_owned(), "long".to_owned()],
            vec!["longer".to_owned(), "b".to_owned()],
        ];
        assert_eq!(columns(&rows), "a       long\nlonger  b\n");
    }

    #[test]
    fn a_reconcile_is_shown_with_its_cause_and_outcome() {
        let done = Reconciled {
            at: "2026-01-01T00:00:00Z".into(),
            plugin: "hello".into(),
            queue: "hello".into(),
            key: "demo/web".into(),
            why: "Pod demo/web-1 added".into(),
            coalesced: 2,
            attempt: 0,
            queued_ms: 0.1,
            took_ms: 12.3,
            failed: None,
            wrote: vec!["create Pod demo/web-2".into()],
        };
        let text = why(&[
            done.clone(),
            Reconciled {
                wrote: Vec::new(),
                failed: Some("no".into()),
                ..done
            },
        ]);
        assert!(
            text.contains("Pod demo/web-1 added (and 2 more)  12 ms  create Pod demo/web-2"),
            "{text}"
        );
        assert!(text.contains("failed: no"), "{text}");
    }
}
