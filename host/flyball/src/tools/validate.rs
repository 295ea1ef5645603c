//! `flyball validate`: checks whether the host could load files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use flyball_plugin::Engine;
use flyball_policy::Policy;
use flyball_types::{error_chain, listed, printable};
use serde_json::{Value, json};

use super::load;
use super::output::{self, Done};
use crate::output::Format;

/// Checks each file on its own, plugins with the configuration of the policy at `policy`.
pub(super) async fn run(
    files: &[impl AsRef<Path>],
    policy: Option<&Path>,
    format: Format,
) -> anyhow::Result<Done> {
    let (engine, given) = (load::engine()?, load::policy(policy)?);
    let mut results: Vec<(&Path, anyhow::Result<Value>)> = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        let is_policy = file.is_dir()
            || file
                .extension()
                .is_some_and(|extension| extension == "toml");
        let checked = match is_policy {
            true => read_policy(file),
            false => plugin(&engine, file, &given).await,
        };
        results.push((file, checked));
    }
    warn_of_rivals(&mut results, &given);
    let code = if results.iter().all(|(_, checked)| checked.is_ok()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    let (mut out, mut err) = (String::new(), String::new());
    match format {
        Format::Text => {
            for (file, checked) in &results {
                match checked {
                    Ok(valid) => {
                        let summary = printable(&summary(valid));
                        out.push_str(&format!("{}: {summary}\n", file.display()));
                        for warning in warnings(valid) {
                            let warning = printable(warning);
                            err.push_str(&format!("{}: warning: {warning}\n", file.display()));
                        }
                    }
                    // The error names the file.
                    Err(error) => {
                        err.push_str(&printable(&error_chain(error.as_ref())));
                        err.push('\n');
                    }
                }
            }
        }
        Format::Json => {
            let documents = results.iter().map(|(file, checked)| {
                let file = file.display().to_string();
                match checked {
                    Ok(valid) => {
                        let mut document = valid.clone();
                        document["file"] = file.into();
                        document["valid"] = true.into();
                        document
                    }
                    Err(error) => json!({"file": file, "valid": false, "problem": error_chain(error.as_ref())}),
                }
            });
            out = output::pretty_json(&documents.collect());
        }
    }
    Ok(Done { out, err, code })
}

/// Checks a plugin, and the policy that it has.
async fn plugin(engine: &Engine, file: &Path, policy: &Policy) -> anyhow::Result<Value> {
    let inspection = flyball_manager::inspect(engine, file, policy).await?;
    if let Some(mistake) = inspection.mistake {
        bail!("{}: {mistake}", file.display());
    }
    let description = &inspection.description;
    let digest = format!("sha256:{}", inspection.digest);
    Ok(
        json!({"kind": "plugin", "name": description.name, "version": description.version, "digest": digest}),
    )
}

/// Reads a policy, and fails if it has a mistake that the host would find only later.
fn read_policy(path: &Path) -> anyhow::Result<Value> {
    let policy = Policy::read(path)?;
    let mistakes = policy.mistakes();
    if !mistakes.is_empty() {
        bail!("the policy {}: {}", path.display(), mistakes.join("; "));
    }
    let names: Vec<_> = policy.plugins.keys().collect();
    Ok(json!({"kind": "policy", "plugins": names, "warnings": policy.warnings()}))
}

/// Adds a warning to each of several files that hold plugins with the same name, unless the policy says which one it
/// applies to: a host runs none of them.
fn warn_of_rivals(results: &mut [(&Path, anyhow::Result<Value>)], policy: &Policy) {
    let mut by_name: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (number, (_, checked)) in results.iter().enumerate() {
        if let Ok(valid) = checked
            && valid["kind"] == "plugin"
            && let (Some(name), Some(digest)) = (valid["name"].as_str(), valid["digest"].as_str())
        {
            let files = by_name.entry(name.to_owned()).or_default();
            files.push((number, digest.to_owned()));
        }
    }
    by_name.retain(|name, files| {
        let is_bound = policy.plugins.get(name).is_some_and(|own| own.is_bound());
        !is_bound && files.iter().any(|(_, digest)| *digest != files[0].1)
    });
    for (name, files) in by_name {
        let paths = files.iter().map(|(number, _)| results[*number].0.display());
        let warning = format!(
            "several files hold a plugin with the name `{name}` ({}): a host runs the one that the policy names by \
             `file` or `digest`, and none of them otherwise",
            listed(paths)
        );
        for (number, _) in files {
            if let Ok(valid) = &mut results[number].1 {
                valid["warnings"] = json!([warning]);
            }
        }
    }
}

/// The warnings about a valid file.
fn warnings(valid: &Value) -> impl Iterator<Item = &str> {
    let warnings = valid["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(Value::as_str)
}

/// Returns a sentence about a valid file.
fn summary(valid: &Value) -> String {
    let word = |name: &str| valid[name].as_str().unwrap_or_default();
    if word("kind") == "plugin" {
        return format!("valid: the plugin {} {}", word("name"), word("version"));
    }
    let plugins: Vec<&str> = valid["plugins"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match plugins.as_slice() {
        [] => "valid: a policy that grants nothing to any plugin".into(),
        names => format!("valid: a policy for {}", names.join(", ")),
    }
}
