//! Keeps a ConfigMap in step with an annotated Namespace.
//!
//! A Namespace annotated `greeter.flyball.dev/greeting: TEXT` gets a ConfigMap `greeting` whose
//! `data.greeting` is TEXT. Changes of either are corrected, and removing the annotation deletes
//! the ConfigMap. It needs no custom resource: the demo and the tests of the host run it.

use flyball_sdk::prelude::*;

const ANNOTATION: &str = "greeter.flyball.dev/greeting";
const NAME: &str = "greeting";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
struct Namespace {
    #[view(
        path = "metadata",
        fields("deletionTimestamp", "annotations['greeter.flyball.dev/greeting']")
    )]
    meta: Meta,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct ConfigMap {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
    #[view(path = "data.greeting")]
    greeting: Option<String>,
}

pub struct Greeter;

export!(Greeter);

impl Controller for Greeter {
    fn describe() -> Description {
        describe("greeter", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Namespace>().enqueue(Mapping::itself()))
            .watch(
                watch::<ConfigMap>()
                    .field_selector("metadata.name=greeting")
                    .enqueue(Mapping::namespace()),
            )
            .queue("greeter")
            .permission(ConfigMap::KIND, ["get", "create", "update", "delete"])
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let namespace = &request.key.name;
        let Some(found) = host
            .get::<Namespace>("", namespace)?
            .filter(|found| !found.meta.is_deleting())
        else {
            return Ok(Outcome::Done);
        };
        let wanted = found.meta.annotation(ANNOTATION);
        match (wanted, host.get::<ConfigMap>(namespace, NAME)?) {
            (Some(text), None) => {
                let object = json!({"metadata": {"name": NAME}, "data": {"greeting": text}});
                host.create(ConfigMap::KIND, namespace, &object)?;
            }
            (Some(text), Some(map)) if map.greeting.as_deref() != Some(text) => {
                host.update(
                    ConfigMap::KIND,
                    &map.meta,
                    &json!({"data": {"greeting": text}}),
                )?;
            }
            (None, Some(map)) => drop(host.delete(ConfigMap::KIND, &map.meta)?),
            _ => {}
        }
        Ok(Outcome::Done)
    }
}
