//! Every text that a guest can write is one that stock wrote in a scenario of the differential suite, or is listed in
//! `texts.toml` of the guest's folder with the reason why no scenario shows it.
//!
//! The texts of the guests are found in their source (`src/texts.rs`), and those of stock are in `texts.json` and in the
//! goldens of the controllers' folders.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use flyball_controller_tests::texts::{self, Listed};
use serde_json::Value;

#[test]
fn each_text_of_a_guest_is_one_of_stock_or_listed_with_a_reason() {
    let controllers = crates("controllers");
    let all: BTreeSet<String> = controllers
        .iter()
        .flat_map(|folder| of_stock(folder))
        .collect();
    let mut problems = Vec::new();
    for folder in &controllers {
        problems.extend(problems_of(folder, &of_stock(folder)));
    }
    // A library's texts are written by the controllers that use it.
    for folder in crates("lib") {
        problems.extend(problems_of(&folder, &all));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn problems_of(folder: &Path, stock: &BTreeSet<String>) -> Vec<String> {
    let path = folder.join("texts.toml");
    let listed = match fs::read_to_string(&path) {
        Ok(text) => {
            Listed::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        }
        Err(_) => Listed::default(),
    };
    let problems = texts::problems(&texts::in_crate(folder), stock, &listed);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    problems
        .into_iter()
        .map(|problem| format!("{name}: {problem}"))
        .collect()
}

/// The folders of the crates in a folder of `guests`.
fn crates(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../guests")
        .join(kind);
    let entries = fs::read_dir(&folder).expect("the guests' folder");
    let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
    let mut crates: Vec<PathBuf> = paths
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    crates.sort();
    assert!(!crates.is_empty(), "{} has no crates", folder.display());
    crates
}

/// The texts of stock in a controller's folder, with masked numbers.
fn of_stock(folder: &Path) -> BTreeSet<String> {
    let goldens = fs::read_dir(folder.join("goldens")).expect("the goldens of a controller");
    let goldens = goldens.map(|entry| entry.expect("a golden").path());
    let texts = Some(folder.join("texts.json")).filter(|path| path.exists());
    let mut found = BTreeSet::new();
    for path in goldens.chain(texts) {
        let text = fs::read(&path).expect("a golden can be read");
        strings(
            &serde_json::from_slice(&text).expect("a golden is JSON"),
            &mut found,
        );
    }
    found
}

fn strings(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            found.insert(texts::mask(text));
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}
