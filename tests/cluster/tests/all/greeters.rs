//! The greeter of each language: a custom resource, an object that it owns, a finalizer, conditions and events, with a
//! service account that has the rights of the printed roles alone.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Example, Space, finish, until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

/// The greeters: the names of the plugins, of their components and of their folders in `examples`.
const GREETERS: [&str; 6] = [
    "greeter-rust",
    "greeter-go",
    "greeter-typescript",
    "greeter-javascript",
    "greeter-python",
    "greeter-c",
];

const FINALIZER: &str = "greeter.flyball.dev/cleanup";

#[tokio::test]
async fn the_greeter_of_each_language_keeps_its_config_map_and_cleans_up() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let result = each_greets(&cluster).await;
    finish(cluster, [], result).await
}

/// Runs the greeters one after another, since they reconcile the same objects.
async fn each_greets(cluster: &Cluster) -> Result<()> {
    cluster.define_greetings().await?;
    let test = "the_greeter_of_each_language_keeps_its_config_map_and_cleans_up";
    for greeter in Example::built(&GREETERS, test)? {
        let name = greeter.name.clone();
        let greeter = [greeter];
        cluster.grant(&greeter).await?;
        let mut host = cluster.spawn_examples(&name, &greeter, &[])?;
        let space = Space::create(cluster.client.clone(), &format!("of-{name}")).await?;
        let greetings = Greetings::of(space);
        let result = greetings.are_kept().await;
        result.with_context(|| format!("{name} fails"))?;
        let status = host.stop().await?;
        ensure!(status.success(), "the host with {name} ended with {status}");
    }
    Ok(())
}

pub(crate) fn text_of(map: &ConfigMap) -> Option<&str> {
    Some(map.data.as_ref()?.get("text")?)
}

/// The Greetings of a namespace.
pub(crate) struct Greetings {
    /// The group of the custom resource.
    group: String,
    pub(crate) space: Space,
    pub(crate) api: Api<DynamicObject>,
}

impl Greetings {
    pub(crate) fn of(space: Space) -> Self {
        Self::of_group("greeter.flyball.dev", space)
    }

    pub(crate) fn of_group(group: &str, space: Space) -> Self {
        let kind = GroupVersionKind::gvk(group, "v1", "Greeting");
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::namespaced_with(space.client.clone(), &space.name, &resource);
        let group = group.to_owned();
        Self { group, space, api }
    }

    pub(crate) async fn are_kept(&self) -> Result<()> {
        let text = "Grüezi 👋";
        self.create("hello", text).await?;
        self.until_text("hello", text).await?;
        self.until_ready("hello", "True", "Greeted").await?;
        self.space
            .until_event("Greeting", "Normal", "Greeted", "wrote ConfigMap hello")
            .await?;
        let finalizers = self.api.get("hello").await?.metadata.finalizers;
        ensure!(
            finalizers.as_deref() == Some(&[FINALIZER.to_owned()]),
            "the finalizers are {finalizers:?}"
        );

        self.space
            .change::<ConfigMap>("hello", json!({"data": {"text": "spoilt"}}))
            .await?;
        self.until_text("hello", text).await?;

        let change = Patch::Merge(json!({"spec": {"text": "Uf Widerluege"}}));
        self.api
            .patch("hello", &PatchParams::default(), &change)
            .await?;
        self.until_text("hello", "Uf Widerluege").await?;
        self.until_ready("hello", "True", "Greeted").await?;

        let taken = json!({"metadata": {"name": "taken"}, "data": {"text": "mine"}});
        self.space.create_object::<ConfigMap>(taken).await?;
        self.create("taken", "theirs").await?;
        self.until_ready("taken", "False", "NameTaken").await?;
        self.space
            .until_event("Greeting", "Warning", "NameTaken", "taken")
            .await?;

        for name in ["hello", "taken"] {
            self.api.delete(name, &DeleteParams::default()).await?;
            until(&format!("the Greeting {name} is deleted"), async || {
                let left = self.api.get_opt(name).await?;
                Ok(left.map_or(Ok(()), |left| Err(format!("{:?}", left.metadata))))
            })
            .await?;
        }
        let maps = self.space.api::<ConfigMap>();
        // Nothing else would delete it: no garbage collector runs.
        ensure!(
            maps.get_opt("hello").await?.is_none(),
            "the ConfigMap outlives its Greeting"
        );
        ensure!(
            text_of(&maps.get("taken").await?) == Some("mine"),
            "the ConfigMap of somebody else was changed"
        );
        Ok(())
    }

    pub(crate) async fn create(&self, name: &str, text: &str) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Greeting",
            "metadata": {"name": name}, "spec": {"text": text},
        }))?;
        // The kind is served a moment after its definition.
        until("a Greeting is created", async || {
            let created = self.api.create(&PostParams::default(), &object).await;
            Ok(created.map(drop).map_err(|error| error.to_string()))
        })
        .await
    }

    /// Waits until the ConfigMap has this text. It is controlled by its Greeting.
    pub(crate) async fn until_text(&self, name: &str, text: &str) -> Result<()> {
        let map = until(&format!("the ConfigMap has {text:?}"), async || {
            let map = self.space.api::<ConfigMap>().get_opt(name).await?;
            Ok(match map {
                Some(map) if text_of(&map) == Some(text) => Ok(map),
                other => Err(format!("{:?}", other.map(|map| map.data))),
            })
        })
        .await?;
        let uid = self.api.get(name).await?.metadata.uid;
        let owners = map.metadata.owner_references.unwrap_or_default();
        ensure!(
            owners.len() == 1
                && Some(&owners[0].uid) == uid.as_ref()
                && owners[0].controller == Some(true),
            "the owners are {owners:?}"
        );
        Ok(())
    }

    /// Waits until the status of the current generation has this condition.
    pub(crate) async fn until_ready(&self, name: &str, status: &str, reason: &str) -> Result<()> {
        until(&format!("{name} has Ready={status} {reason}"), async || {
            let greeting = self.api.get(name).await?;
            let generation = json!(greeting.metadata.generation);
            let found = &greeting.data["status"];
            let conditions = found["conditions"].as_array();
            let is_it = |condition: &Value| {
                condition["type"] == "Ready"
                    && condition["status"] == status
                    && condition["reason"] == reason
                    && condition["observedGeneration"] == generation
                    && condition["lastTransitionTime"].is_string()
            };
            let is_ready = conditions.is_some_and(|all| all.len() == 1 && is_it(&all[0]));
            Ok(if is_ready && found["observedGeneration"] == generation {
                Ok(())
            } else {
                Err(found.to_string())
            })
        })
        .await
    }
}
