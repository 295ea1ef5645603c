//! The host during a call of the plugin: kube's types have no place for it.

use std::cell::RefCell;
use std::rc::Rc;

use flyball_sdk::Host;
use flyball_sdk::describe::Description;
use flyball_sdk::imports::Imports;

use crate::error::{Error, Result};

/// The host and the description during a call.
#[derive(Clone)]
struct Current {
    imports: Rc<dyn Imports>,
    description: Rc<Description>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Runs a call of a plugin.
pub(crate) fn scope<T>(
    host: &Host<'_>,
    description: &Rc<Description>,
    call: impl FnOnce() -> T,
) -> T {
    /// Brings the outer call back, also after a panic.
    struct Outer(Option<Current>);
    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let current = Current {
        imports: host.imports().share(),
        description: Rc::clone(description),
    };
    let _outer = Outer(CURRENT.replace(Some(current)));
    call()
}

/// Calls `function` with the host, and with the description of the plugin; `None` outside of a call.
pub(crate) fn try_with<T>(function: impl FnOnce(&Host<'_>, &Description) -> T) -> Option<T> {
    // The current call is cloned, so that nothing is borrowed while `function` runs.
    let current = CURRENT.with_borrow(Clone::clone)?;
    Some(function(
        &Host::new(&*current.imports),
        &current.description,
    ))
}

/// Does the same as [`try_with`], and fails outside of a call.
///
/// # Errors
/// `function` failed, or there is no current call.
pub(crate) fn with<T>(function: impl FnOnce(&Host<'_>, &Description) -> Result<T>) -> Result<T> {
    let message = "can't reach the API server: a client works only within a call of a reconciler";
    try_with(function).unwrap_or_else(|| Err(Error::local(500, "InternalError", message)))
}
