//! The plugins of the folder `examples`, each under the policy beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flyball_controlplane::{Process, skip};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{Cluster, Space, guest, until};

/// A plugin that is built.
pub struct Example {
    /// The name of the plugin, of its component and of its folder.
    pub name: String,
    component: PathBuf,
}

impl Example {
    /// Returns the plugins with these names. Plugins that are not built are recorded as skipped by `test`.
    pub fn built(names: &[&str], test: &str) -> Result<Vec<Self>> {
        let mut built = Vec::new();
        for &name in names {
            match guest(name) {
                Ok(component) => built.push(Self {
                    name: name.into(),
                    component,
                }),
                Err(_) => skip(
                    &format!("{test} ({name})"),
                    "a tool that builds it is missing",
                )?,
            }
        }
        Ok(built)
    }

    /// Its folder.
    pub fn folder(&self) -> PathBuf {
        Self::folders().join(&self.name)
    }

    /// The folder of all.
    pub fn folders() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
    }

    fn policy(&self) -> PathBuf {
        self.folder().join("policy.toml")
    }
}

impl Cluster {
    /// Creates the CustomResourceDefinition in a file in YAML.
    pub async fn define(&self, file: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("can't read {}", file.display()))?;
        let definition: Value = serde_saphyr::from_str(&text)
            .with_context(|| format!("can't parse {}", file.display()))?;
        let definitions = json!({"items": [definition]}).to_string();
        self.apply(&definitions).await.map(drop)
    }

    /// Defines the custom resource of the greeters.
    pub async fn define_greetings(&self) -> Result<()> {
        self.define(&Example::folders().join("greeter.crd.yaml"))
            .await
    }

    /// Creates the service accounts of examples, and the roles that the binary prints for them.
    pub async fn grant(&self, examples: &[Example]) -> Result<()> {
        for example in examples {
            self.apply_roles(&example.policy(), &example.component)
                .await?;
        }
        Ok(())
    }

    /// Starts a host with examples, and no built-in controllers unless `args` enable them.
    pub fn spawn_examples(
        &self,
        host_name: &str,
        examples: &[Example],
        args: &[String],
    ) -> Result<Process> {
        let components: Vec<PathBuf> = examples
            .iter()
            .map(|example| example.component.clone())
            .collect();
        let plugins = self.folder_with(&format!("{host_name}-plugins"), &components)?;
        let policies = self.folder_with(&format!("{host_name}-policy"), &[])?;
        for example in examples {
            let copy = policies.join(&example.name).with_extension("toml");
            std::fs::copy(example.policy(), &copy)
                .with_context(|| format!("can't copy the policy of {}", example.name))?;
        }
        let all = [&Self::plugins_alone(&plugins, &policies), args].concat();
        self.spawn_host(host_name, self.plane.kubeconfig_path(), &all)
    }
}

impl Space {
    /// Waits for an event about an object of this kind in the namespace. Its message must contain `message`.
    pub async fn until_event(
        &self,
        kind: &str,
        event_type: &str,
        reason: &str,
        message: &str,
    ) -> Result<()> {
        until(&format!("there is an event {reason}"), async || {
            let api = self.api::<Event>();
            let events = api.list(&ListParams::default()).await?.items;
            let is_it = |event: &Event| {
                event.type_.as_deref() == Some(event_type)
                    && event.reason.as_deref() == Some(reason)
                    && event.involved_object.kind.as_deref() == Some(kind)
                    && event
                        .message
                        .as_deref()
                        .is_some_and(|text| text.contains(message))
            };
            let texts: Vec<_> = events.iter().map(|event| &event.message).collect();
            Ok(if events.iter().any(is_it) {
                Ok(())
            } else {
                Err(format!("{texts:?}"))
            })
        })
        .await
    }
}
