//! Writes the names of a Widget's parts into a ConfigMap of its name, again and again while the Widget has a size.
//!
//! The custom resource of the tests has no schema, so that a Widget may be malformed. A test runs the plugin under a
//! second name by overwriting the name in the component.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The name that is overwritten.
static NAME: &str = "widgets-0";
/// The time between two writes.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(View, Clone, Debug, Default)]
#[view(kind = "example.com/v1/Widget")]
struct Widget {
    #[view(path = "spec.size")]
    size: i32,
    #[view(path = "spec.parts[*].name")]
    parts: Vec<String>,
}

pub struct Widgets;

export!(Widgets);

impl Controller for Widgets {
    fn describe() -> Description {
        // Without a black box, the compiler could inline the name that a test overwrites.
        describe(std::hint::black_box(NAME), env!("CARGO_PKG_VERSION"))
            .watch(watch::<Widget>().enqueue(Mapping::itself()))
            .queue("widgets")
            .permission("v1/ConfigMap", ["create"])
            .malformed_events()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Key { namespace, name } = &request.key;
        // A list, as a row does not name its object.
        let widgets = host.list::<Widget>().namespace(namespace).all()?;
        let Some(widget) = widgets.iter().find(|widget| widget.size > 0) else {
            return Ok(Outcome::Done);
        };
        let parts = json!({"metadata": {"name": name}, "data": {"parts": widget.parts.join(" ")}});
        match host.create("v1/ConfigMap", namespace, &parts) {
            Err(error) if !error.is_already_exists() => Err(error.into()),
            _ => Ok(Outcome::RequeueAfter(AGAIN)),
        }
    }
}
