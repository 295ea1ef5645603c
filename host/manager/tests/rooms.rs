//! Checks the order of the crate's rooms: a module imports from its own room and from lower ones, never from a higher one,
//! and the modules of a room do not import each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rooms, from the lowest to the highest.
const ROOMS: [&str; 10] = [
    "policy", "limits", "api", "signer", "reads", "writer", "runtime", "plugins", "admin",
    "manager",
];
/// Not rooms: they may import everything.
const ABOVE_ALL: [&str; 2] = ["lib", "fuzzing"];

/// A module of a room: the room's name, and the module's below it; empty for the room's own file.
type Module = (String, String);

/// An import of a module, and where it stands.
struct Import {
    from: Module,
    to: Module,
    line: String,
}

#[test]
fn no_module_imports_from_a_higher_room() {
    let height = |module: &Module| ROOMS.iter().position(|room| *room == module.0);
    let wrong: Vec<String> = imports()
        .into_iter()
        .filter(|import| height(&import.to) > height(&import.from))
        .map(|import| import.line)
        .collect();
    assert!(wrong.is_empty(), "imports run up:\n{}", wrong.join("\n"));
}

#[test]
fn the_modules_of_a_room_do_not_import_each_other_in_a_cycle() {
    let mut imported: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for import in imports() {
        if import.from.0 == import.to.0 && import.from != import.to {
            imported.entry(import.from).or_default().insert(import.to);
        }
    }
    // Modules that import nothing that is left cannot be in a cycle; nor can those that import only such modules.
    loop {
        let before = imported.len();
        let left: BTreeSet<Module> = imported.keys().cloned().collect();
        imported.retain(|_, targets| targets.iter().any(|target| left.contains(target)));
        if imported.len() == before {
            break;
        }
    }
    let left: BTreeSet<Module> = imported.keys().cloned().collect();
    for targets in imported.values_mut() {
        targets.retain(|target| left.contains(target));
    }
    assert!(imported.is_empty(), "cycles: {imported:#?}");
}

#[test]
fn each_module_lies_in_a_room() {
    for (module, _) in modules() {
        assert!(
            ROOMS.contains(&&*module.0) || ABOVE_ALL.contains(&&*module.0),
            "the test does not know the room of `{}`: add it to ROOMS",
            module.0
        );
    }
    assert!(
        imports().len() > 100,
        "the test finds the imports of the crate"
    );
}

#[test]
fn each_way_to_write_an_import_is_understood() {
    let code = "use crate::api::client::ApiClient;\nuse crate::{limits::rate, signer::{Signer, key}};\n\
                use super::queue::Queue;\n    use super::worker;\nlet a = crate::reads::access(b);";
    let found: Vec<String> = targets(code, Some("runtime"))
        .iter()
        .map(|path| path.join("::"))
        .collect();
    let expected = [
        "api::client",
        "limits::rate",
        "signer::Signer",
        "signer::key",
        "reads::access",
        "runtime::queue",
    ];
    assert_eq!(found, expected);
}

/// All imports from rooms, made in modules of rooms.
fn imports() -> Vec<Import> {
    let mut found = Vec::new();
    for (from, path) in modules() {
        if ABOVE_ALL.contains(&&*from.0) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the source is readable");
        let code: String = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n");
        let is_in_room_folder = path.parent() == Some(&source().join(&from.0));
        for target in targets(&code, is_in_room_folder.then_some(&*from.0)) {
            let line = format!("{}: {}", path.display(), target.join("::"));
            let mut segments = target.into_iter();
            let room = segments.next().unwrap_or_default();
            let below = segments.next().unwrap_or_default();
            if ROOMS.contains(&&*room) {
                let is_module = source()
                    .join(&room)
                    .join(&below)
                    .with_extension("rs")
                    .is_file();
                let below = if is_module { below } else { String::new() };
                found.push(Import {
                    from: from.clone(),
                    to: (room, below),
                    line,
                });
            }
        }
    }
    found
}

/// The paths below the crate that the code names by `crate::`, or by `super::` if the file's parent module is a room.
fn targets(code: &str, parent: Option<&str>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let is_whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
        if is_whole {
            expand(&code[at + prefix.len()..], &[], &mut found);
        }
    }
    if let Some(parent) = parent {
        // Only at the start of a line: an indented `super` is the file's own module.
        let imports = code
            .lines()
            .filter_map(|line| line.strip_prefix("use super::"));
        imports.for_each(|rest| expand(rest, &[parent.to_owned()], &mut found));
    }
    found
}

/// Adds the first two segments of each path that starts here; braces list several.
fn expand(text: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    if before.len() == 2 {
        return found.push(before.to_vec());
    }
    if let Some(list) = text.strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    if !list[start..at].trim().is_empty() {
                        expand(list[start..at].trim(), before, found);
                    }
                    start = at + 1;
                    if c == '}' {
                        return;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let path = [before, &[text[..end].to_owned()]].concat();
    match text[end..].strip_prefix("::") {
        Some(rest) => expand(rest, &path, found),
        None => found.push(path),
    }
}

/// The source files with the modules that they belong to. What lies in a folder of a module belongs to the module.
fn modules() -> Vec<(Module, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![source()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the source is readable") {
            let path = entry.expect("the source is readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(source()).expect("it is in the source");
            let names = below.with_extension("");
            let mut names = names.iter().map(|name| name.to_string_lossy().into_owned());
            let module = (
                names.next().unwrap_or_default(),
                names.next().unwrap_or_default(),
            );
            found.push((module, path));
        }
    }
    found
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}
