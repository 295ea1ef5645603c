//! `flyball validate`: whether the host could load these files, and if not, why.

use std::path::Path;
use std::process::ExitCode;

use flyball_manager::policy::Policy;
use serde_json::{Value, json};

use super::trial::engine;
use super::{Done, Format, output};
use crate::sentence;

/// Checks files, each for itself.
pub(super) async fn run(files: &[impl AsRef<Path>], format: Format) -> anyhow::Result<Done> {
    let engine = engine()?;
    let mut found: Vec<(&Path, anyhow::Result<Value>)> = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        let is_policy = file.is_dir()
            || file
                .extension()
                .is_some_and(|extension| extension == "toml");
        let checked = match is_policy {
            true => Policy::read(file).map(|policy| of_policy(&policy)).map_err(anyhow::Error::from),
            false => flyball_manager::inspect(&engine, file, &Policy::default()).await.map_err(anyhow::Error::from).map(|trial| {
                let description = &trial.description;
                let digest = format!("sha256:{}", trial.digest);
                json!({"kind": "plugin", "name": description.name, "version": description.version, "digest": digest})
            }),
        };
        found.push((file, checked));
    }
    let code = if found.iter().all(|(_, checked)| checked.is_ok()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    let (mut out, mut err) = (String::new(), String::new());
    match format {
        Format::Text => {
            for (file, checked) in &found {
                match checked {
                    Ok(fine) => out.push_str(&format!("{}: {}\n", file.display(), praise(fine))),
                    // The sentence names the file.
                    Err(error) => err.push_str(&format!("{}\n", sentence(error))),
                }
            }
        }
        Format::Json => {
            let documents = found.iter().map(|(file, checked)| {
                let file = file.display().to_string();
                match checked {
                    Ok(fine) => {
                        let mut document = fine.clone();
                        document["file"] = file.into();
                        document["valid"] = true.into();
                        document
                    }
                    Err(error) => json!({"file": file, "valid": false, "problem": sentence(error)}),
                }
            });
            out = output::pretty_json(&documents.collect());
        }
    }
    Ok(Done { out, err, code })
}

fn of_policy(policy: &Policy) -> Value {
    json!({"kind": "policy", "plugins": policy.plugins.keys().collect::<Vec<_>>()})
}

/// What is there, in a sentence.
fn praise(fine: &Value) -> String {
    let word = |name: &str| fine[name].as_str().unwrap_or_default();
    if word("kind") == "plugin" {
        return format!("valid: the plugin {} {}", word("name"), word("version"));
    }
    let plugins: Vec<&str> = fine["plugins"]
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
