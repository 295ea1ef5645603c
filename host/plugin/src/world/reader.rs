//! `reader` and `discovery`: live reads. While a call waits for the API server, its thread runs other calls.

use flyball_types::{ApiError, Catalogue, ServedKind, size_of_block};
use futures::StreamExt;
use wasmtime::component::Resource;

use super::{InstanceState, arguments, owned, size_of_strings, trap};
use crate::bindings::flyball::controller::reader::{Error, Host, HostBatch, Parameter};
use crate::bindings::flyball::controller::{discovery, types};
use crate::handles::ReadBatch;
use crate::hits::Limit;
use crate::imports::Read;

/// The number of reads of a batch that run at once. The same as for writes.
const CONCURRENCY: usize = 16;

/// Maximum number of reads of a batch. The same as for writes.
const MAX_READS: usize = 1000;

impl Host for InstanceState {}

impl HostBatch for InstanceState {
    fn new(&mut self) -> wasmtime::Result<Resource<ReadBatch>> {
        self.new_batch()
    }

    fn get(
        &mut self,
        batch: Resource<ReadBatch>,
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    ) -> wasmtime::Result<()> {
        self.add_read(
            batch,
            Read::Get {
                kind,
                namespace,
                name,
                fields,
            },
        )
    }

    fn list(
        &mut self,
        batch: Resource<ReadBatch>,
        kind: String,
        namespace: String,
        parameters: Vec<Parameter>,
        fields: Vec<String>,
    ) -> wasmtime::Result<()> {
        let pair = |parameter: Parameter| (parameter.name, parameter.value);
        self.add_read(
            batch,
            Read::List {
                kind,
                namespace,
                parameters: parameters.into_iter().map(pair).collect(),
                fields,
            },
        )
    }

    fn raw(&mut self, batch: Resource<ReadBatch>, path: String) -> wasmtime::Result<()> {
        self.add_read(batch, Read::Raw { path })
    }

    async fn run(
        &mut self,
        batch: Resource<ReadBatch>,
    ) -> wasmtime::Result<Vec<Result<Vec<u8>, Error>>> {
        let (imports, allowance) = (self.imports_without_texts()?.clone(), self.allowance());
        let (reads, _charge) = self.take_batch(&batch)?;
        let limit = self.limits.answer_bytes;
        let mut left = limit;
        let mut results = Vec::with_capacity(reads.len());
        let mut running = futures::stream::iter(reads)
            .map(async |read| imports.reader_read(read?, allowance.clone()).await)
            .buffered(CONCURRENCY);
        while let Some(result) = running.next().await {
            let result = result.and_then(|held| {
                left = left.checked_sub(held.bytes.len()).ok_or_else(|| {
                    self.hit(Limit::Answer);
                    too_large(held.bytes.len(), limit)
                })?;
                Ok(owned(held.charged_to(&mut self.answer)))
            });
            results.push(result.map_err(Error::from));
        }
        Ok(results)
    }

    fn drop(&mut self, batch: Resource<ReadBatch>) -> wasmtime::Result<()> {
        self.drop_batch(batch)
    }
}

fn too_large(size: usize, limit: usize) -> ApiError {
    ApiError::full(format!(
        "with this result of {size} bytes, the results of the batch exceed the plugin's limit of {limit} bytes: read fewer \
         objects or fields at once"
    ))
}

impl InstanceState {
    fn add_read(&mut self, batch: Resource<ReadBatch>, read: Read) -> wasmtime::Result<()> {
        let read = self.checked(arguments::read(&read)).map(|()| read);
        let size = read.as_ref().map_or(size_of::<ApiError>(), size);
        let reads = self.stage_in(&batch, size)?;
        reads.push(read);
        if reads.len() > MAX_READS {
            return Err(trap(format!(
                "a batch of it has more than {MAX_READS} reads"
            )));
        }
        Ok(())
    }
}

/// Bytes that a read holds.
fn size(read: &Read) -> usize {
    let strings = match read {
        Read::Get {
            kind,
            namespace,
            name,
            fields,
        } => {
            let names = [kind, namespace, name].map(|text| size_of_block(text.len()));
            names.into_iter().sum::<usize>() + size_of_strings(fields)
        }
        Read::List {
            kind,
            namespace,
            parameters,
            fields,
        } => {
            let parameters: usize = parameters
                .iter()
                .map(|(name, value)| {
                    let texts = size_of_block(name.len()) + size_of_block(value.len());
                    size_of::<(String, String)>() + texts
                })
                .sum();
            let names = size_of_block(kind.len()) + size_of_block(namespace.len());
            names + parameters + size_of_strings(fields)
        }
        Read::Raw { path } => size_of_block(path.len()),
    };
    size_of::<Read>() + strings
}

impl discovery::Host for InstanceState {
    async fn kinds(&mut self) -> wasmtime::Result<Result<discovery::Catalogue, types::Error>> {
        let imports = self.imports_without_texts()?.clone();
        let catalogue = imports.discovery_kinds().await;
        Ok(catalogue
            .map(discovery::Catalogue::from)
            .map_err(types::Error::from))
    }
}

impl From<Catalogue> for discovery::Catalogue {
    fn from(catalogue: Catalogue) -> Self {
        let kind = |kind: ServedKind| discovery::ServedKind {
            kind: kind.kind,
            plural: kind.plural,
            namespaced: kind.namespaced,
            preferred: kind.preferred,
            verbs: kind.verbs,
            subresources: kind.subresources.into_iter().map(Into::into).collect(),
        };
        let failure = |failure: flyball_types::DiscoveryFailure| discovery::Failure {
            group_version: failure.group_version,
            message: failure.message,
        };
        Self {
            kinds: catalogue.kinds.into_iter().map(kind).collect(),
            failures: catalogue.failures.into_iter().map(failure).collect(),
        }
    }
}

impl From<flyball_types::Subresource> for discovery::Subresource {
    fn from(subresource: flyball_types::Subresource) -> Self {
        let flyball_types::Subresource { name, verbs } = subresource;
        Self { name, verbs }
    }
}
