//! Checks which crates the host's crates build on: the cache knows no wasmtime, the plugin runtime no Kubernetes client, and the
//! workqueue neither.

use std::collections::BTreeSet;
use std::path::Path;

/// What stands for a runtime of WebAssembly, and for a client of Kubernetes.
const RUNTIME: [&str; 3] = ["wasmtime", "wasmtime-wasi", "flyball-plugin"];
const CLIENT: [&str; 5] = [
    "kube",
    "k8s-openapi",
    "flyball-cache",
    "flyball-manager",
    "flyball-serving",
];

/// The crates that a crate of the host builds on, those of the workspace with theirs.
fn built_on(name: &str) -> BTreeSet<String> {
    let folder = name.strip_prefix("flyball-").expect("a crate of the host");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{folder}/Cargo.toml"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest: toml::Table = text.parse().expect("a manifest");
    let mut tables = vec![&manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    let mut found = BTreeSet::new();
    for table in tables {
        for kind in ["dependencies", "build-dependencies"] {
            let named = table.get(kind).and_then(toml::Value::as_table);
            for crate_name in named.into_iter().flat_map(toml::Table::keys) {
                if crate_name.starts_with("flyball-") {
                    found.extend(built_on(crate_name));
                }
                found.insert(crate_name.clone());
            }
        }
    }
    found
}

#[test]
fn the_cache_knows_no_runtime_and_the_runtime_no_client() {
    for (name, others) in [
        ("flyball-cache", &RUNTIME[..]),
        ("flyball-plugin", &CLIENT),
        ("flyball-workqueue", &RUNTIME),
        ("flyball-workqueue", &CLIENT),
    ] {
        let known = built_on(name);
        assert!(!known.is_empty(), "{name}");
        let wrong: Vec<&&str> = others
            .iter()
            .filter(|other| known.contains(**other))
            .collect();
        assert!(wrong.is_empty(), "{name} builds on {wrong:?}");
    }
}
