//! Responses of the host as text tables. Texts of plugins and of the API server can't imitate a row or a cell.

use flyball_manager::PluginStatus;
use flyball_runtime::history::Reconciled;
use flyball_types::{printable, quoted};

/// Aligns the columns. The last column is not padded.
fn columns(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|text| cell(text)).collect())
        .collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| Some(row.get(column)?.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Quotes a text that would look like more than one cell.
fn cell(text: &str) -> String {
    if text.contains("  ") || text.trim_matches(' ') != text {
        quoted(text)
    } else {
        printable(text)
    }
}

/// A text on one line, after an empty one.
fn paragraph(text: &str) -> String {
    format!("\n{}\n", printable(text))
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
            (state, true) => format!("{} (rolled back)", state.name()),
            (state, false) => state.name().to_owned(),
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
        let name = &plugin.name;
        if let Some(reason) = &plugin.reason {
            text.push_str(&paragraph(&format!("{name}: {reason}")));
        }
        if let Some(canary) = &plugin.canary {
            text.push_str(&paragraph(&format!("{name}: {canary}")));
        }
        if let Some(error) = &plugin.performance.last_error {
            let digest: String = error.digest.chars().take(12).collect();
            let (at, message) = (&error.at, &error.message);
            text.push_str(&paragraph(&format!(
                "{name}: last error, at {at} in the version {digest}: {message}"
            )));
        }
    }
    text
}

/// Returns a table with a line for each reconcile.
pub(super) fn why(reconciles: &[Reconciled]) -> String {
    let titles = ["AT", "PLUGIN", "VERSION", "KEY", "WHY", "TOOK", "OUTCOME"];
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
            done.digest.chars().take(12).collect(),
            done.key.clone(),
            format!("{}{more}", done.why),
            milliseconds(done.took_ms),
            outcome,
        ]);
    }
    columns(&rows)
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
            digest: String::new(),
            queue: "hello".into(),
            key: "demo/web".into(),
            why: "Pod demo/web-1 added".into(),
            coalesced: 2,
            attempt: 0,
            queued_ms: 0.1,
            took_ms: 12.3,
            failed: None,
            wrote: vec!["create Pod demo/web-2".into()],
            trace: None,
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

    #[test]
    fn what_a_plugin_says_is_no_row_or_cell_of_its_own() {
        let done = |key: &str, failed: &str| Reconciled {
            at: "2026-01-01T00:00:00Z".into(),
            plugin: "hello".into(),
            digest: String::new(),
            queue: "hello".into(),
            key: key.into(),
            why: "Pod demo/web-1 added".into(),
            coalesced: 0,
            attempt: 0,
            queued_ms: 0.1,
            took_ms: 12.3,
            failed: Some(failed.into()),
            wrote: Vec::new(),
            trace: None,
        };
        let text = why(&[
            done("a  b", "no\n2026-01-01T00:00:00Z  other"),
            done("\u{202e}a", "\u{1b}[2J\u{9b}A"),
            done("a\tb ", "\u{200b}"),
        ]);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert_eq!(
            flyball_types::printable(&text.replace('\n', "")),
            text.replace('\n', "")
        );
        for shown in [
            r#"  "a  b"  "#,
            r#"  "failed: no\n2026-01-01T00:00:00Z  other""#,
            r"  \u202ea  ",
            r"  failed: \u001b[2J\u009bA",
            r#"  "a\tb "  "#,
            r"  failed: \u200b",
        ] {
            assert!(text.contains(shown), "{shown} is not in {text}");
        }

        assert_eq!(
            paragraph("a\nb: it said:\n\nother: all is well"),
            "\na\\nb: it said:\\n\\nother: all is well\n"
        );
    }
}
