//! The greeter in Rust with faults: see README.md in the folder above.

#[path = "../../../../examples/greeter-rust/src/api.rs"]
pub mod api;
#[path = "../../../../examples/greeter-rust/src/greeter.rs"]
pub mod greeter;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use flyball_sdk::prelude::*;

use api::Greeting;
use greeter::Greeter;

/// The number of calls of this instance that counted.
static COUNTED: AtomicU32 = AtomicU32::new(0);

/// The greeter with faults.
pub struct Faulty;

flyball_sdk::export!(Faulty);

impl Controller for Faulty {
    fn describe() -> Description {
        Greeter::describe()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let greeting = host.get_by_key::<Greeting>(&request.key)?;
        let text = greeting.as_ref().map(|greeting| &*greeting.spec.text);
        match (text, &greeting) {
            (Some("fault: raise"), _) => Err(Error::failed(text_of(None))),
            (Some("fault: loop"), _) => loop {
                std::hint::spin_loop();
            },
            (Some("fault: error"), _) => Err(Error::failed("asked to fail")),
            (Some("fault: terminal"), _) => Err(Error::terminal("no retry can help")),
            (Some("fault: requeue"), _) => Ok(Outcome::RequeueAfter(Duration::from_millis(50))),
            (Some("fault: conflict"), Some(greeting)) => Err(conflict(host, greeting)),
            (Some("fault: count"), _) => {
                let count = COUNTED.fetch_add(1, Relaxed) + 1;
                let message = format!("call {count} of this instance");
                Err(Error::terminal(message))
            }
            _ => Greeter::reconcile(host, request),
        }
    }
}

fn text_of(greeting: Option<&Greeting>) -> &str {
    &greeting.unwrap().spec.text // the bug
}

fn conflict(host: &Host, greeting: &Greeting) -> Error {
    let mut stale = greeting.meta.clone();
    stale.resource_version = "1".to_owned();
    let change = json!({"spec": {"text": "overwritten"}});
    match host.update(Greeting::KIND, &stale, &change) {
        Err(error) if error.is_conflict() => Error::failed(format!("found a conflict: {error}")),
        other => Error::failed(format!("found no conflict: {:?}", other.err())),
    }
}
