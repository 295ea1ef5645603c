//! The output of the commands, and its formats: indented JSON, and documents of YAML.

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use flyball_types::printable_json;
use serde_json::{Value, json};

/// Output and exit code of a command.
pub(crate) struct Done {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: ExitCode,
}

impl From<String> for Done {
    fn from(out: String) -> Self {
        Self {
            out,
            err: String::new(),
            code: ExitCode::SUCCESS,
        }
    }
}

/// Output format of Kubernetes objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manifests {
    /// YAML, with comments
    #[default]
    Yaml,
    /// A list, in JSON
    Json,
}

impl Manifests {
    /// Returns objects in this format. JSON has no comment.
    pub(super) fn print(self, comment: &str, objects: &[Value]) -> anyhow::Result<String> {
        Ok(match self {
            Self::Json => {
                pretty_json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
            }
            Self::Yaml => comment.to_owned() + &yaml(objects)?,
        })
    }
}

/// A duration, as in `1.2 s`, `50 ms` or `0.4 ms`.
pub(super) fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.1.. => format!("{seconds:.1} s"),
        0.01.. => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.1} ms", seconds * 1e3),
    }
}

/// A value as indented JSON with a newline at its end.
pub(super) fn pretty_json(value: &Value) -> String {
    printable_json(&format!("{value:#}\n"))
}

/// Values as documents of one YAML stream.
pub(super) fn yaml(documents: &[Value]) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string_multiple(documents)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_yaml_stays_one_string() {
        let value = json!({
            "kind": "ClusterRole", "empty": {}, "none": [],
            "metadata": {"name": "flyball:a", "labels": {"on": "no", "a/b": "1.5", "e": "", "x": "a: b # c"}},
            "rules": [
                {"apiGroups": [""], "verbs": ["get\n---\nkind: Secret\n", "*", "- a", "null", "0x1"]},
                {"resources": ["pods/status"], "n": 3, "deep": [{"a": {"b": [true]}}]}
            ],
        });
        let text = yaml(&[value.clone(), value.clone()]).expect("it is written");
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
        assert_eq!(read, [value.clone(), value], "{text}");
    }
}
