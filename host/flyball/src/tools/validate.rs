//! `flyball validate`: checks whether the host could load files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use flyball_plugin::Engine;
use flyball_policy::{Policy, kinds as known};
use flyball_types::{error_chain, listed, printable};
use serde_json::{Value, json};

use super::kinds::{self, KindFlags};
use super::load;
use super::output::{self, Done};
use crate::admin::RunningHost;
use crate::output::Format;

/// A file and what was found in it.
struct Checked<'a> {
    file: &'a Path,
    /// What the file holds; none if it can't be read as a plugin or policy.
    found: Option<Value>,
    /// The kinds and patterns that it names.
    kinds: BTreeSet<String>,
    /// Sentences. Each names the file.
    mistakes: Vec<String>,
    warnings: Vec<String>,
}

/// Checks each file on its own, plugins with the configuration of the policy at `policy`. Shows all mistakes of all
/// files.
pub(super) async fn run(
    files: &[impl AsRef<Path>],
    policy: Option<&Path>,
    format: Format,
    flags: &KindFlags,
    host: &RunningHost,
) -> anyhow::Result<Done> {
    let (engine, given) = (load::engine()?, load::policy(policy)?);
    let mut results: Vec<Checked<'_>> = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        let is_policy = file.is_dir()
            || file
                .extension()
                .is_some_and(|extension| extension == "toml");
        results.push(match is_policy {
            true => check_policy(file),
            false => check_plugin(&engine, file, &given).await,
        });
    }
    check_kinds(&mut results, flags, host).await?;
    warn_of_rivals(&mut results, &given);
    let is_valid = results.iter().all(Checked::is_valid);
    let (mut out, mut err) = (String::new(), String::new());
    match format {
        Format::Text => {
            for checked in &results {
                let file = checked.file.display();
                for mistake in &checked.mistakes {
                    err.push_str(&format!("{}\n", printable(mistake)));
                }
                let Some(found) = checked.found.as_ref().filter(|_| checked.is_valid()) else {
                    continue;
                };
                out.push_str(&format!("{file}: {}\n", printable(&summary(found))));
                for warning in &checked.warnings {
                    err.push_str(&format!("{file}: warning: {}\n", printable(warning)));
                }
            }
        }
        Format::Json => out = output::pretty_json(&results.iter().map(Checked::json).collect()),
    }
    let code = match is_valid {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    Ok(Done { out, err, code })
}

impl<'a> Checked<'a> {
    fn new(file: &'a Path, found: Value) -> Self {
        Self {
            file,
            found: Some(found),
            kinds: BTreeSet::new(),
            mistakes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A file that can't be read as a plugin or policy. The error names the file.
    fn failed(file: &'a Path, error: &dyn std::error::Error) -> Self {
        Self {
            found: None,
            mistakes: vec![error_chain(error)],
            ..Self::new(file, Value::Null)
        }
    }

    fn is_valid(&self) -> bool {
        self.mistakes.is_empty()
    }

    fn json(&self) -> Value {
        let mut document = self.found.clone().unwrap_or_else(|| json!({}));
        document["file"] = self.file.display().to_string().into();
        document["valid"] = self.is_valid().into();
        if !self.is_valid() {
            document["problems"] = json!(self.mistakes);
        }
        if !self.warnings.is_empty() {
            document["warnings"] = json!(self.warnings);
        }
        document
    }
}

/// Checks a plugin, and the policy that it has.
async fn check_plugin<'a>(engine: &Engine, file: &'a Path, policy: &Policy) -> Checked<'a> {
    let inspection = match flyball_manager::inspect(engine, file, policy).await {
        Ok(inspection) => inspection,
        Err(error) => return Checked::failed(file, &error),
    };
    let description = &inspection.description;
    let digest = format!("sha256:{}", inspection.digest);
    let found = json!({"kind": "plugin", "name": description.name, "version": description.version, "digest": digest});
    let mistakes = inspection.mistakes.iter();
    Checked {
        kinds: known::of_description(description).collect(),
        mistakes: mistakes
            .map(|mistake| format!("{}: {mistake}", file.display()))
            .collect(),
        ..Checked::new(file, found)
    }
}

/// Reads a policy, and finds mistakes that the host would find only later.
fn check_policy(path: &Path) -> Checked<'_> {
    let policy = match Policy::read(path) {
        Ok(policy) => policy,
        Err(error) => return Checked::failed(path, &error),
    };
    let names: Vec<_> = policy.plugins.keys().collect();
    let mistakes = policy.mistakes().into_iter();
    Checked {
        kinds: policy.kinds().into_iter().map(str::to_owned).collect(),
        mistakes: mistakes
            .map(|mistake| format!("the policy {}: {mistake}", path.display()))
            .collect(),
        warnings: policy.warnings(),
        ..Checked::new(path, json!({"kind": "policy", "plugins": names}))
    }
}

/// Checks the kinds of all files.
async fn check_kinds(
    results: &mut [Checked<'_>],
    flags: &KindFlags,
    host: &RunningHost,
) -> anyhow::Result<()> {
    let named = results.iter().flat_map(|result| result.kinds.clone());
    let found = kinds::check(&named.collect(), flags, host).await?;
    for result in results {
        let Checked {
            file,
            kinds,
            mistakes,
            warnings,
            ..
        } = result;
        for kind in kinds.iter() {
            let mistake = found.mistakes.get(kind);
            mistakes.extend(mistake.map(|mistake| format!("{}: {mistake}", file.display())));
            warnings.extend(found.warnings.get(kind).cloned());
        }
    }
    Ok(())
}

/// Adds a warning to each of several files that hold plugins with the same name, unless the policy says which one it
/// applies to: a host runs none of them.
fn warn_of_rivals(results: &mut [Checked<'_>], policy: &Policy) {
    let mut by_name: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (number, checked) in results.iter().enumerate() {
        if let Some(found) = &checked.found
            && found["kind"] == "plugin"
            && let (Some(name), Some(digest)) = (found["name"].as_str(), found["digest"].as_str())
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
        let paths = files
            .iter()
            .map(|(number, _)| results[*number].file.display());
        let warning = format!(
            "several files hold a plugin with the name `{name}` ({}): a host runs the one that the policy names by \
             `file` or `digest`, and none of them otherwise",
            listed(paths)
        );
        for (number, _) in files {
            results[number].warnings.push(warning.clone());
        }
    }
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
