//! The reflector's requests, and the stream of a watch, cut into whole events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;

use crate::core::Core;
use crate::decode::Page;
use crate::resource::push_parameter;
use crate::source::{
    Chunks, JSON, METADATA, METADATA_LIST, PROTOBUF, PROTOBUF_METADATA, PROTOBUF_METADATA_LIST,
    fetch, with_timeout,
};
use crate::{Get, Object, Source, SourceError, protobuf};

/// The number of objects in a page.
const PAGE_SIZE: u32 = 500;

/// Sends the requests of one informer.
pub(crate) struct Requests {
    source: Arc<dyn Source>,
    core: Arc<Core>,
}

impl Requests {
    pub(crate) fn new(source: Arc<dyn Source>, core: Arc<Core>) -> Self {
        Self { source, core }
    }

    /// A page of a list that is not older than `not_older_than` (0 for a consistent read). `next` is the token of the
    /// previous page.
    pub(crate) async fn page(
        &self,
        next: &str,
        not_older_than: u64,
        one_page: bool,
    ) -> Result<Bytes, SourceError> {
        let mut path = self.path()?;
        if !one_page {
            push_parameter(&mut path, "limit", &PAGE_SIZE.to_string());
        }
        if !next.is_empty() {
            push_parameter(&mut path, "continue", next);
        } else if not_older_than > 0 {
            push_parameter(&mut path, "resourceVersion", &not_older_than.to_string());
            push_parameter(&mut path, "resourceVersionMatch", "NotOlderThan");
        }
        fetch(
            &*self.source,
            Get {
                path,
                accept: self.accept(METADATA_LIST, PROTOBUF_METADATA_LIST),
            },
        )
        .await
    }

    /// A watch that begins with all objects, not older than `not_older_than` (0 for a consistent read).
    pub(crate) async fn stream_list(
        &self,
        not_older_than: u64,
        limit: Duration,
    ) -> Result<Events, SourceError> {
        let mut path = self.watch_path(limit)?;
        push_parameter(&mut path, "sendInitialEvents", "true");
        push_parameter(&mut path, "resourceVersionMatch", "NotOlderThan");
        if not_older_than > 0 {
            push_parameter(&mut path, "resourceVersion", &not_older_than.to_string());
        }
        self.events(path).await
    }

    /// A watch of the changes after a resource version.
    pub(crate) async fn watch(&self, after: u64, limit: Duration) -> Result<Events, SourceError> {
        let mut path = self.watch_path(limit)?;
        push_parameter(&mut path, "resourceVersion", &after.to_string());
        self.events(path).await
    }

    /// The resource version of a consistent read.
    pub(crate) async fn fresh_position(&self) -> Result<u64, SourceError> {
        let mut path = self.path()?;
        push_parameter(&mut path, "limit", "1");
        Ok(self.metadata_page(path).await?.resource_version)
    }

    /// The version of an object in a consistent read; that of the read if there is no such object.
    pub(crate) async fn fresh_version_of(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<u64, SourceError> {
        let path = self.core.resource.collection(namespace);
        let mut path = path.map_err(|error| SourceError::Invalid(error.to_string()))?;
        push_parameter(&mut path, "fieldSelector", &format!("metadata.name={name}"));
        let page = self.metadata_page(path).await?;
        let is_it =
            |object: &&Arc<Object>| object.name() == name && object.namespace() == namespace;
        let found = page.objects.iter().find(is_it);
        Ok(found.map_or(page.resource_version, |object| object.resource_version()))
    }

    /// A page of the metadata of objects.
    async fn metadata_page(&self, path: String) -> Result<Page, SourceError> {
        let request = Get {
            path,
            accept: METADATA_LIST,
        };
        let body = fetch(&*self.source, request).await?;
        let page = self
            .core
            .decoder(&Arc::default(), &mut Vec::new())
            .page(&body);
        page.map_err(|error| SourceError::Invalid(error.to_string()))
    }

    fn path(&self) -> Result<String, SourceError> {
        let path = self.core.resource.collection(&self.core.scope.namespace);
        let mut path = path.map_err(|error| SourceError::Invalid(error.to_string()))?;
        self.core.scope.push_parameters(&mut path);
        Ok(path)
    }

    fn watch_path(&self, limit: Duration) -> Result<String, SourceError> {
        let mut path = self.path()?;
        push_parameter(&mut path, "watch", "true");
        push_parameter(&mut path, "allowWatchBookmarks", "true");
        push_parameter(&mut path, "timeoutSeconds", &limit.as_secs().to_string());
        Ok(path)
    }

    async fn events(&self, path: String) -> Result<Events, SourceError> {
        let request = Get {
            path,
            accept: self.accept(METADATA, PROTOBUF_METADATA),
        };
        with_timeout(self.source.get(request))
            .await
            .map(Events::new)
    }

    fn accept(&self, metadata: &'static str, protobuf_metadata: &'static str) -> &'static str {
        match (self.core.is_metadata_only(), self.core.reads_protobuf()) {
            (false, false) => JSON,
            (false, true) => PROTOBUF,
            (true, false) => metadata,
            (true, true) => protobuf_metadata,
        }
    }
}

/// Assembles chunks into whole events: lines of JSON, or protobuf frames with a length prefix.
pub(crate) struct Events {
    chunks: Chunks,
    buffer: Vec<u8>,
    /// The length of the whole events in `buffer`.
    end: usize,
}

impl Events {
    fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            buffer: Vec::new(),
            end: 0,
        }
    }

    /// Waits for at least one whole event. Returns false at the end of the stream. Cancel-safe.
    pub(crate) async fn fill(&mut self) -> Result<bool, SourceError> {
        while self.end == 0 {
            let Some(chunk) = self.chunks.try_next().await? else {
                return Ok(false);
            };
            let before = self.buffer.len();
            self.buffer.extend_from_slice(&chunk);
            if protobuf::is_frame(&self.buffer) {
                self.end = protobuf::whole_frames(&self.buffer);
            } else if let Some(last) = chunk.iter().rposition(|byte| *byte == b'\n') {
                self.end = before + last + 1;
            }
        }
        Ok(true)
    }

    /// The bytes of the whole events received.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.buffer[..self.end]
    }

    /// Drops the whole events.
    pub(crate) fn consume(&mut self) {
        self.buffer.drain(..self.end);
        self.end = 0;
        // A big event must not occupy memory for as long as the watch lasts.
        self.buffer.shrink_to(64 * 1024);
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn events_are_whole_however_the_stream_is_split() {
        let pieces = [
            "{\"a\"",
            ":1}\n{\"b\":2}\n{\"c",
            "\":3}",
            "\n",
            "{\"d\":4}\n",
        ]
        .map(|piece| Ok(Bytes::from(piece)));
        let mut lines = Events::new(futures::stream::iter(pieces).boxed());
        let mut found = Vec::new();
        while lines.fill().await.unwrap() {
            assert!(lines.whole().ends_with(b"\n"));
            found.extend_from_slice(lines.whole());
            lines.consume();
        }
        assert_eq!(found, b"{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n");
    }
}
