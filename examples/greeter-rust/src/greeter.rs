//! The controller.

// ANCHOR: kinds
use flyball_sdk::prelude::*;
use flyball_sdk::{condition, finalizer, info};

use crate::api::{Greeting, GreetingStatus};

const NAME: &str = "greeter-rust";
const FINALIZER: &str = "greeter.flyball.dev/cleanup";

/// The fields of a ConfigMap that the controller reads.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct ConfigMap {
    #[view(path = "metadata", fields("ownerReferences"))]
    meta: Meta,
    #[view(path = "data.text")]
    text: Option<String>,
}
// ANCHOR_END: kinds

// ANCHOR: describe
pub struct Greeter;

impl Controller for Greeter {
    fn describe() -> Description {
        describe(NAME, env!("CARGO_PKG_VERSION"))
            .watch(watch::<Greeting>().enqueue(Mapping::itself()))
            .watch(watch::<ConfigMap>().enqueue(Mapping::controller(Greeting::KIND)))
            .queue(NAME)
            .permission(Greeting::KIND, ["get", "update"])
            .permission_on(Greeting::KIND, "status", ["update"])
            // An owner reference that blocks the owner's deletion needs it.
            .permission_on(Greeting::KIND, "finalizers", ["update"])
            .permission(ConfigMap::KIND, ["get", "create", "update", "delete"])
    }
    // ANCHOR_END: describe

    // ANCHOR: reconcile
    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(greeting) = host.get_by_key::<Greeting>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let map = host.get_by_key::<ConfigMap>(&request.key)?;
        let is_ours = |map: &&ConfigMap| map.meta.is_controlled_by(&greeting.meta.uid);
        if greeting.meta.is_deleting() {
            clean_up(host, &greeting, map.as_ref().filter(is_ours))?;
        } else if finalizer::is_missing(&greeting.meta, FINALIZER) {
            // The update enqueues the key again.
            host.write(finalizer::add(Greeting::KIND, &greeting.meta, FINALIZER))?;
        } else if map.as_ref().is_some_and(|map| !is_ours(&map)) {
            refuse(host, &greeting)?;
        } else {
            write(host, &greeting, map.as_ref())?;
            report(host, &greeting, "True", "Greeted", "")?;
        }
        Ok(Outcome::Done)
    }
}
// ANCHOR_END: reconcile

// ANCHOR: steps
/// Deletes the ConfigMap of a Greeting that is being deleted, and then lets the Greeting go.
fn clean_up(host: &Host, greeting: &Greeting, map: Option<&ConfigMap>) -> Result<(), Error> {
    if !finalizer::has(&greeting.meta, FINALIZER) {
        return Ok(());
    }
    if let Some(map) = map {
        // A ConfigMap that has been deleted or replaced by another one is left alone.
        host.delete_all(ConfigMap::KIND, std::slice::from_ref(&map.meta))?;
    }
    host.write(finalizer::remove(Greeting::KIND, &greeting.meta, FINALIZER))?;
    Ok(())
}

/// Creates or corrects the ConfigMap. Emits an event if it wrote it.
fn write(host: &Host, greeting: &Greeting, map: Option<&ConfigMap>) -> Result<(), Error> {
    let (name, text) = (&greeting.meta.name, &greeting.spec.text);
    let data = json!({"text": text});
    let written = match map {
        None => {
            let owner = greeting.meta.controller_reference(Greeting::KIND);
            let object =
                json!({"metadata": {"name": name, "ownerReferences": [owner]}, "data": data});
            host.create(ConfigMap::KIND, &greeting.meta.namespace, &object)
        }
        Some(map) if map.text.as_ref() != Some(text) => {
            host.update(ConfigMap::KIND, &map.meta, &json!({"data": data}))
        }
        Some(_) => return Ok(()),
    };
    written.doing(|| format!("writing the ConfigMap {name}"))?;
    info!(host, "wrote the ConfigMap {name}");
    let about = greeting.meta.reference(Greeting::KIND);
    host.emit(Event::normal(
        &about,
        "Greeted",
        &format!("wrote ConfigMap {name}"),
    ));
    Ok(())
}

/// Reports that the ConfigMap's name is taken, with one event.
fn refuse(host: &Host, greeting: &Greeting) -> Result<(), Error> {
    let message = format!(
        "ConfigMap {} exists and this Greeting does not control it",
        greeting.meta.name
    );
    if report(host, greeting, "False", "NameTaken", &message)? {
        let about = greeting.meta.reference(Greeting::KIND);
        host.emit(Event::warning(&about, "NameTaken", &message));
    }
    Ok(())
}
// ANCHOR_END: steps

// ANCHOR: report
/// Writes the condition `Ready` and the observed generation. Returns whether they differ from the written ones.
fn report(
    host: &Host,
    greeting: &Greeting,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<bool, Error> {
    let generation = greeting.meta.generation;
    let ready = Condition {
        observed_generation: Some(generation),
        ..Condition::new("Ready", status, reason, message)
    };
    let mut conditions = greeting.status.conditions.clone();
    condition::set(&mut conditions, ready, host.now());
    let status = GreetingStatus {
        observed_generation: generation,
        conditions,
    };
    let is_changed = status != greeting.status;
    if is_changed {
        host.update_status(Greeting::KIND, &greeting.meta, &status)?;
    }
    Ok(is_changed)
}
// ANCHOR_END: report
