//! The table of all cases in `docs/security.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::arena::Done;

const BEGIN: &str = "<!-- cases -->\n";
const HEAD: &str = "| class | case | the host's answer |\n|---|---|---|\n";
const END: &str = "<!-- end of cases -->";

/// Fails if the table in the document differs from these cases. Writes it if the variable `BLESS` is set.
pub(crate) fn is_current(done: &[Done]) -> Result<()> {
    let (text, [before, _, after]) = document()?;
    let mut rows: Vec<String> = done.iter().map(row).collect();
    rows.sort();
    let current = format!("{before}{BEGIN}{HEAD}{}{END}{after}", rows.concat());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path(), &current)?;
        return Ok(());
    }
    ensure!(
        text == current,
        "the table in docs/security.md is out of date: write it with BLESS=1 cargo xtask test --full --workspace --test hostile"
    );
    Ok(())
}

/// Fails if the document has no row for one of these cases.
pub(crate) fn has(done: &[Done]) -> Result<()> {
    let (_, [_, table, _]) = document()?;
    let missing = done.iter().map(row).find(|row| !table.contains(row));
    ensure!(
        missing.is_none(),
        "the table in docs/security.md has not the row {missing:?}"
    );
    Ok(())
}

/// The document, and its parts before, in and after the table.
fn document() -> Result<(String, [String; 3])> {
    let text = std::fs::read_to_string(path())?;
    let (before, rest) = text
        .split_once(BEGIN)
        .context("docs/security.md has no place for the cases")?;
    let (table, after) = rest
        .split_once(END)
        .context("docs/security.md has no end of the cases")?;
    let parts = [before, table, after].map(str::to_owned);
    Ok((text, parts))
}

fn row(done: &Done) -> String {
    let answer = done.answer.replace('|', "\\|");
    format!("| {} | {} | {} |\n", done.class.name(), done.name, answer)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md")
}
