//! Replaces functions of WASI that wasmtime links by the host's own.

use wasmtime::component::{Linker, LinkerInstance};

use super::InstanceState;

/// Replaces a function that is linked. Fails if there is none, because then a guest would get the original under
/// another version of the interface.
pub(super) fn replace(
    linker: &mut Linker<InstanceState>,
    interface: &str,
    function: &str,
    define: impl FnOnce(&mut LinkerInstance<InstanceState>, &str) -> wasmtime::Result<()>,
) -> wasmtime::Result<()> {
    let unused = linker
        .instance(interface)?
        .func_wrap(function, |_, (): ()| Ok(()));
    if unused.is_ok() {
        let message = format!("`{interface}` has no function `{function}`");
        return Err(wasmtime::Error::msg(message));
    }
    linker.allow_shadowing(true);
    let defined = define(&mut linker.instance(interface)?, function);
    linker.allow_shadowing(false);
    defined
}
