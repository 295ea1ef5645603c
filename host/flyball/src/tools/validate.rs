//! `flyball validate`: checks whether the host could load files.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use flyball_plugin::Engine;
use flyball_policy::Policy;
use flyball_types::{error_chain, printable};
use serde_json::{Value, json};

use super::{Done, Format, load, output};

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
    Ok(json!({"kind": "policy", "plugins": policy.plugins.keys().collect::<Vec<_>>()}))
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
