//! The common part of `reader.batch` and `writer.batch`: a guest adds items one by one and then runs them together.

use wasmtime::component::Resource;

use super::{InstanceState, trap};
use crate::budget::Charge;
use crate::handles::Staged;

impl InstanceState {
    pub(super) fn new_batch<T: Default + Send + 'static>(
        &mut self,
    ) -> wasmtime::Result<Resource<Staged<T>>> {
        self.handles
            .push(Staged::default())
            .map_err(|error| self.handle_error(error))
    }

    /// Returns the items of a batch. Traps if the batch belongs to an earlier call.
    pub(super) fn batch_items<T: Send + 'static>(
        &mut self,
        batch: &Resource<Staged<T>>,
    ) -> wasmtime::Result<&mut T> {
        self.staged_batch(batch).map(|batch| &mut batch.items)
    }

    /// Counts bytes that are about to be added to a batch, and returns its items.
    pub(super) fn stage_in<T: Send + 'static>(
        &mut self,
        batch: &Resource<Staged<T>>,
        bytes: usize,
    ) -> wasmtime::Result<&mut T> {
        self.received();
        self.stage(bytes)?;
        let batch = self.staged_batch(batch)?;
        batch.bytes += bytes;
        Ok(&mut batch.items)
    }

    /// Empties a batch. Returns its items with the charge that counts them, to be kept as long as they are.
    pub(super) fn take_batch<T: Default + Send + 'static>(
        &mut self,
        batch: &Resource<Staged<T>>,
    ) -> wasmtime::Result<(T, Charge)> {
        let Staged { items, bytes, .. } = std::mem::take(self.staged_batch(batch)?);
        self.staged -= bytes;
        Ok((items, self.held.split(bytes)))
    }

    pub(super) fn drop_batch<T: Send + 'static>(
        &mut self,
        batch: Resource<Staged<T>>,
    ) -> wasmtime::Result<()> {
        let batch = self.handles.delete(batch)?;
        self.unstage(batch.bytes);
        Ok(())
    }

    fn staged_batch<T: Send + 'static>(
        &mut self,
        batch: &Resource<Staged<T>>,
    ) -> wasmtime::Result<&mut Staged<T>> {
        let batch = self.handles.get_mut(batch)?;
        if batch.ended {
            return Err(trap("it used a batch of an earlier call".into()));
        }
        Ok(batch)
    }
}
