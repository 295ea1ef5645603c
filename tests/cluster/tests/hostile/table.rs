//! The table of all cases in `docs/security.md`.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::arena::Done;

const BEGIN: &str = "<!-- cases -->\n";
const END: &str = "<!-- end of cases -->";

/// Fails if the document has another table than that of these cases. Writes it if the variable `BLESS` is set.
pub(crate) fn is_current(done: &[Done]) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let text = std::fs::read_to_string(&path)?;
    let (before, rest) = text
        .split_once(BEGIN)
        .context("docs/security.md has no place for the cases")?;
    let (_, after) = rest
        .split_once(END)
        .context("docs/security.md has no end of the cases")?;
    let mut table = String::from("| class | case | the host's answer |\n|---|---|---|\n");
    let mut rows: Vec<String> = done
        .iter()
        .map(|done| {
            let answer = done.answer.replace('|', "\\|");
            format!("| {} | {} | {} |\n", done.class.name(), done.name, answer)
        })
        .collect();
    rows.sort();
    table.extend(rows);
    let current = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &current)?;
        return Ok(());
    }
    ensure!(
        text == current,
        "the table in docs/security.md is out of date: write it with BLESS=1 cargo test --release --workspace --test hostile"
    );
    Ok(())
}
