//! The SBOM of the host in CycloneDX's JSON: the crates of the host and of the built-in guests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::machine::Architecture;
use xtask::run::{command, output};

/// Packages whose code is in the binary: the host, and the guests in `guests/`.
const HOST: &str = "flyball";
const GUESTS: &str = "/guests/";

/// The list for these architectures, the same for the same `Cargo.lock`.
pub(super) fn of_host(architectures: &[Architecture]) -> Result<String> {
    let mut cargo = command("cargo");
    cargo.args(["metadata", "--format-version=1", "--locked"]);
    for architecture in architectures {
        cargo.args(["--filter-platform", &architecture.target()]);
    }
    let metadata = output(&mut cargo).context("`cargo metadata --locked` fails")?;
    let list = list(&serde_json::from_str(&metadata)?)?;
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

fn list(metadata: &Value) -> Result<Value> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = array(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let members: BTreeSet<String> = array(&metadata["workspace_members"])
        .iter()
        .map(text)
        .collect();
    let mut dependencies = BTreeMap::new();
    for node in array(&metadata["resolve"]["nodes"]) {
        // A dependency without a kind is one of the code itself, not of its build or tests.
        let is_normal = |dependency: &Value| {
            let kinds = array(&dependency["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"].is_null())
        };
        let all = array(&node["deps"]);
        let normal = all.iter().filter(|dependency| is_normal(dependency));
        let ids: Vec<String> = normal.map(|dependency| text(&dependency["pkg"])).collect();
        dependencies.insert(text(&node["id"]), ids);
    }
    let is_root = |id: &&String| {
        let package = &packages[*id];
        package["name"] == HOST || text(&package["manifest_path"]).contains(GUESTS)
    };
    let mut waiting: Vec<String> = members.iter().filter(is_root).cloned().collect();
    let mut found = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if found.insert(id.clone()) {
            waiting.extend(dependencies.get(&id).cloned().unwrap_or_default());
        }
    }
    let host = packages.values().find(|package| package["name"] == HOST);
    let host = component(host.context("the workspace has no host")?);
    let components: Vec<Value> = found.iter().map(|id| component(&packages[id])).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": host},
        "components": components,
    }))
}

fn component(package: &Value) -> Value {
    let (name, version) = (&package["name"], &package["version"]);
    let (name, version) = (
        name.as_str().unwrap_or_default(),
        version.as_str().unwrap_or_default(),
    );
    let mut component = json!({
        "type": if name == HOST { "application" } else { "library" },
        "bom-ref": format!("{name}@{version}"),
        "name": name,
        "version": version,
    });
    if package["source"].is_string() {
        component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
    }
    if let Some(license) = package["license"].as_str() {
        // The old form of a choice, which isn't an SPDX expression.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_is_linked_and_not_what_tests_need() {
        let text = of_host(&Architecture::ALL).unwrap();
        assert_eq!(text, of_host(&Architecture::ALL).unwrap());
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(list["metadata"]["component"]["name"], "flyball");
        let components = list["components"].as_array().unwrap();
        let find = |name: &str| {
            components
                .iter()
                .find(|component| component["name"] == name)
        };
        let engine = find("wasmtime").expect("the engine is linked");
        let version = engine["version"].as_str().unwrap();
        assert_eq!(engine["purl"], format!("pkg:cargo/wasmtime@{version}"));
        assert!(find("flyball-sdk").is_some() && find("job-controller").is_some());
        assert!(find("proptest").is_none() && find("flyball-cluster-tests").is_none());
        let unlicensed = components.iter().find(|one| one["licenses"].is_null());
        assert!(unlicensed.is_none(), "{unlicensed:?}");
    }
}
