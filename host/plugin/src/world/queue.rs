//! `queue`: the plugin's own queues.

use super::State;
use crate::bindings::flyball::controller::queue::{Error, Host};

impl Host for State {
    fn add(&mut self, queue: String, key: String) -> wasmtime::Result<Result<(), Error>> {
        self.add_after(queue, key, 0)
    }

    fn add_after(
        &mut self,
        queue: String,
        key: String,
        delay_ms: u32,
    ) -> wasmtime::Result<Result<(), Error>> {
        Ok(self
            .imports()?
            .enqueue(&queue, &key, delay_ms)
            .map_err(Error::from))
    }

    fn forget(&mut self, queue: String, key: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(self.imports()?.forget(&queue, &key).map_err(Error::from))
    }

    fn requeues(&mut self, queue: String, key: String) -> wasmtime::Result<Result<u32, Error>> {
        Ok(self.imports()?.requeues(&queue, &key).map_err(Error::from))
    }
}
