//! The tables of controllers in the docs, which are generated from the manifests: `BLESS=1 cargo test --workspace
//! --test controllers_page` writes them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_controllers::{CONTROLLERS, Controller, Guest, Start, built_in};

#[test]
fn the_docs_list_the_controllers_of_the_manifests() -> Result<()> {
    let path = page();
    let current =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let present = replaced(&current, "built-in", &built_in_table()?)?;
    let expected = replaced(&present, "missing", &missing_table())?;
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected)?;
    }
    ensure!(
        current == expected || std::env::var_os("BLESS").is_some(),
        "docs/controllers.md is out of date: write it with BLESS=1 cargo test --workspace --test controllers_page"
    );
    Ok(())
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/controllers.md")
}

/// Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->`.
fn replaced(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let (before, rest) = page
        .split_once(&begin)
        .with_context(|| format!("docs/controllers.md lacks {begin:?}"))?;
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("docs/controllers.md lacks {end:?}"))?;
    Ok(format!("{before}{begin}{text}{end}{after}"))
}

fn built_in_table() -> Result<String> {
    let mut table = String::from(
        "\n| controller | what it does | runs by default | state | scenarios |\n|---|---|---|---|---|\n",
    );
    for (controller, guest) in built_in() {
        writeln!(
            table,
            "| {} | {} | {} | {} | {} |",
            guest.folder,
            guest.about,
            by_default(controller),
            guest.state,
            scenarios(guest)?
        )?;
    }
    Ok(table + "\n")
}

fn by_default(controller: &Controller) -> String {
    match (controller.start, controller.enabled_by, controller.gates) {
        (Start::Disabled, ..) => "no".to_owned(),
        (_, Some(flag), _) => format!("with `--{flag}`"),
        (_, None, []) => "yes".to_owned(),
        (_, None, [gate]) => format!("with the gate {gate}"),
        (_, None, gates) => format!("with the gates {}", gates.join(" and ")),
    }
}

fn scenarios(guest: &Guest) -> Result<usize> {
    let folder = flyball_differential::controllers()
        .join(guest.folder)
        .join("scenarios");
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("can't read {}", folder.display()))?;
    Ok(entries.count())
}

fn missing_table() -> String {
    let missing = CONTROLLERS
        .iter()
        .filter(|controller| controller.guest.is_none());
    let lines = missing.map(|controller| {
        let consequence = controller.without.unwrap_or_default();
        format!("- {}: without it, {consequence}\n", controller.name)
    });
    format!("\n{}\n", lines.collect::<String>())
}
