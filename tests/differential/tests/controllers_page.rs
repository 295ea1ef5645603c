//! The table of controllers in the docs.

use std::path::Path;

use anyhow::{Context, Result, ensure};

#[test]
fn the_docs_list_each_controller_with_the_number_of_its_scenarios() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/controllers.md"))?;
    let (_, table) = page
        .split_once("| controller | state |")
        .context("docs/controllers.md has a table of controllers")?;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for row in &rows {
        let [controller, _, scenarios, size, memory] = row[..] else {
            anyhow::bail!("the row {row:?} does not have five columns");
        };
        let folder = flyball_differential::controllers()
            .join(controller)
            .join("scenarios");
        let files = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        ensure!(
            scenarios.parse() == Ok(files),
            "{controller} has {files} scenarios"
        );
        ensure!(
            size.parse::<u32>().is_ok() && memory.parse::<u32>().is_ok(),
            "the size and the memory of {controller} are missing"
        );
    }
    for entry in std::fs::read_dir(flyball_differential::controllers())? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name();
        ensure!(
            rows.iter().any(|row| name.to_str() == Some(row[0])),
            "docs/controllers.md lacks {}",
            name.display()
        );
    }
    let count = format!("has {} controllers of kube-controller-manager", rows.len());
    ensure!(page.contains(&count), "the table has {} rows", rows.len());
    Ok(())
}
