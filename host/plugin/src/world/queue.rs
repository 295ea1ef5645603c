//! `queue`: the plugin's own queues.

use super::InstanceState;
use super::arguments::{Checked, name};
use crate::bindings::flyball::controller::queue::{Error, Host};

impl Host for InstanceState {
    fn add(&mut self, queue: String, key: String) -> wasmtime::Result<Result<(), Error>> {
        let added = self
            .imports(checked(&queue, &key))?
            .and_then(|imports| imports.queue_add(&queue, &key));
        Ok(added.map_err(Error::from))
    }

    fn add_after(
        &mut self,
        queue: String,
        key: String,
        delay_ms: u32,
    ) -> wasmtime::Result<Result<(), Error>> {
        let added = self
            .imports(checked(&queue, &key))?
            .and_then(|imports| imports.queue_add_after(&queue, &key, delay_ms));
        Ok(added.map_err(Error::from))
    }

    fn forget(&mut self, queue: String, key: String) -> wasmtime::Result<Result<(), Error>> {
        let forgotten = self
            .imports(checked(&queue, &key))?
            .and_then(|imports| imports.queue_forget(&queue, &key));
        Ok(forgotten.map_err(Error::from))
    }

    fn requeues(&mut self, queue: String, key: String) -> wasmtime::Result<Result<u32, Error>> {
        let requeues = self
            .imports(checked(&queue, &key))?
            .and_then(|imports| imports.queue_requeues(&queue, &key));
        Ok(requeues.map_err(Error::from))
    }
}

fn checked(queue: &str, key: &str) -> Checked {
    name("the queue", queue)?;
    name("the key", key)
}
