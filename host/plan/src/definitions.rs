//! CustomResourceDefinitions: those of the base give objects their schemas, and those that the plan writes are served.

use flyball_testserver::api::discovery::Served;
use serde_json::{Value, json};

use crate::kinds::is_built_in;
use crate::overlay::Id;
use crate::server::{Shared, State};

pub(crate) const KIND: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";

/// The name of a kind's definition, if it has one.
pub(crate) fn name(served: &Served) -> String {
    format!("{}.{}", served.plural, served.kind.group)
}

/// Serves the kinds of a definition.
pub(crate) fn establish(state: &mut State, id: &Id, definition: Value) {
    let spec = &definition["spec"];
    let is_same = |served: &&Served| {
        spec["group"] == *served.kind.group && spec["names"]["plural"] == *served.plural
    };
    let known = state.kinds.served().iter().filter(is_same).count();
    state.kinds.define(&definition);
    let now = state.kinds.served().iter().filter(is_same).count();
    if known > 0 && now > known {
        state.note(format!(
            "{} gets a new version, in which the plan sees no objects: it can't convert them",
            id.name
        ));
    }
    if definition["status"]["conditions"].is_array() {
        return;
    }
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": "Planned"});
    let mut established = definition.clone();
    established["status"] = json!({
        "acceptedNames": spec["names"],
        "conditions": [condition("NamesAccepted"), condition("Established")],
    });
    let version = state.overlay.cluster.next_version();
    established["metadata"]["resourceVersion"] = version.to_string().into();
    state.overlay.cluster.overwrite(established);
    state.overlay.publish(id, Some(definition));
}

impl Shared {
    /// Makes the schema of a custom resource known. Without it, objects are neither defaulted nor validated here.
    pub(crate) async fn load_definition(&self, kind: &str) {
        let name = {
            let state = &mut *self.state.borrow_mut();
            let Some(served) = state.kinds.find(kind).cloned() else {
                return;
            };
            if is_built_in(&served.kind.group) || !state.defined.insert(kind.to_owned()) {
                return;
            }
            name(&served)
        };
        let id = Id::new(KIND, "", &name);
        if self.load(&id).await.is_err() {
            let note =
                format!("the definition {name} can't be read: objects of {kind} are not checked");
            self.state.borrow_mut().note(note);
        }
    }
}
