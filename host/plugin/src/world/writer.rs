//! `writer`: batches of writes. Only `run` sends requests to the API server. They continue if the guest is stopped.

use bytes::Bytes;
use flyball_types::{ApiError, size_of_block};
use wasmtime::component::Resource;

use super::{InstanceState, arguments, owned, size_of_strings, trap};
use crate::bindings::flyball::controller::writer::{self, Error, Host, HostBatch};
use crate::budget::Held;
use crate::handles::WriteBatch;
use crate::hits::Limit;
use crate::imports::{Operation, Target, Write};

impl Host for InstanceState {}

impl HostBatch for InstanceState {
    fn new(&mut self) -> wasmtime::Result<Resource<WriteBatch>> {
        self.new_batch()
    }

    fn create(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        object: Vec<u8>,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add(
            batch,
            target,
            Operation::Create {
                object: object.into(),
            },
            options,
            returns,
        )
    }

    fn update(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        resource_version: String,
        change: Vec<u8>,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add(
            batch,
            target,
            Operation::Update {
                resource_version,
                change: change.into(),
            },
            options,
            returns,
        )
    }

    fn update_status(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        resource_version: String,
        status: Vec<u8>,
        metadata: Vec<u8>,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add(
            batch,
            target,
            Operation::UpdateStatus {
                resource_version,
                status: status.into(),
                metadata: metadata.into(),
            },
            options,
            returns,
        )
    }

    fn patch(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        patch_type: String,
        patch: Vec<u8>,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add(
            batch,
            target,
            Operation::Patch {
                patch_type,
                patch: patch.into(),
            },
            options,
            returns,
        )
    }

    fn delete(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add(batch, target, Operation::Delete, options, returns)
    }

    fn delete_collection(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        label_selector: String,
        field_selector: String,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add(
            batch,
            target,
            Operation::DeleteCollection {
                label_selector,
                field_selector,
            },
            options,
            returns,
        )
    }

    fn slow_start(&mut self, batch: Resource<WriteBatch>, initial: u32) -> wasmtime::Result<()> {
        self.batch_items(&batch)?.slow_start = Some(initial);
        Ok(())
    }

    fn stop_on_error(&mut self, batch: Resource<WriteBatch>) -> wasmtime::Result<()> {
        self.batch_items(&batch)?.stop_on_error = true;
        Ok(())
    }

    async fn run(
        &mut self,
        batch: Resource<WriteBatch>,
    ) -> wasmtime::Result<Vec<Result<Vec<u8>, Error>>> {
        let (imports, allowance) = (self.imports_without_texts()?.clone(), self.allowance());
        let (batch, charge) = self.take_batch(&batch)?;
        if batch.writes.is_empty() {
            return Ok(Vec::new());
        }
        let results = imports.writer_run(batch, charge, allowance).await;
        let limit = self.limits.answer_bytes;
        // The writes have taken effect, so an error instead of a result would be wrong.
        let size: usize = results.iter().flatten().map(|held| held.bytes.len()).sum();
        if size > limit {
            self.hit(Limit::Answer);
            return Err(trap(format!(
                "its writes return more than the plugin's limit of {limit} bytes"
            )));
        }
        let answer = &mut self.answer;
        let mut bytes = |held: Held| owned(held.charged_to(answer));
        Ok(results
            .into_iter()
            .map(|result| result.map(&mut bytes).map_err(Error::from))
            .collect())
    }

    fn drop(&mut self, batch: Resource<WriteBatch>) -> wasmtime::Result<()> {
        self.drop_batch(batch)
    }
}

impl InstanceState {
    fn add(
        &mut self,
        batch: Resource<WriteBatch>,
        target: writer::Target,
        operation: Operation,
        options: Vec<u8>,
        returns: Vec<String>,
    ) -> wasmtime::Result<()> {
        let writer::Target {
            kind,
            namespace,
            name,
            subresource,
        } = target;
        let write = Write {
            target: Target {
                kind,
                namespace,
                name,
                subresource,
            },
            operation,
            options: options.into(),
            returns,
        };
        let write = self.checked(arguments::write(&write)).map(|()| write);
        let size = write.as_ref().map_or(size_of::<ApiError>(), size);
        let batch = self.stage_in(&batch, size)?;
        batch.writes.push(write);
        Ok(())
    }
}

/// Bytes that a write holds.
fn size(write: &Write) -> usize {
    let Target {
        kind,
        namespace,
        name,
        subresource,
    } = &write.target;
    let text = |text: &String| size_of_block(text.len());
    let document = |document: &Bytes| size_of_block(document.len());
    let target = text(kind) + text(namespace) + text(name) + text(subresource);
    let operation = match &write.operation {
        Operation::Create { object } => document(object),
        Operation::Update {
            resource_version,
            change,
        } => text(resource_version) + document(change),
        Operation::UpdateStatus {
            resource_version,
            status,
            metadata,
        } => text(resource_version) + document(status) + document(metadata),
        Operation::Patch { patch_type, patch } => text(patch_type) + document(patch),
        Operation::Delete => 0,
        Operation::DeleteCollection {
            label_selector,
            field_selector,
        } => text(label_selector) + text(field_selector),
    };
    let returns = size_of_strings(&write.returns);
    size_of::<Write>() + target + operation + document(&write.options) + returns
}
