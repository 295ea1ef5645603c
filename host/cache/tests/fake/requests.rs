//! The requests that the server handles: lists and watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::source::Chunks;
use flyball_cache::{Get, Source, SourceError};
use flyball_types::LabelSelector;
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Inner, Server, Watcher, bookmark, labels_of, refused, unreachable_error};

/// A connection to the server.
pub(super) struct Connection(pub(super) Arc<Server>);

impl Source for Connection {
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let (_, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
            let parameters: BTreeMap<String, String> = query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(key, value)| (key.into(), value.replace("%3D", "=")))
                .collect();
            let labels = parameters
                .get("labelSelector")
                .map_or("", |labels| labels)
                .parse()
                .unwrap();
            let mut inner = self.0.inner();
            let shown = query
                .split('&')
                .filter(|pair| !pair.starts_with("timeoutSeconds"))
                .collect::<Vec<_>>()
                .join("&");
            inner.requests.push(shown);
            inner.accepts.push(request.accept);
            if inner.unreachable {
                return Err(unreachable_error());
            }
            if inner.kind_is_missing {
                let message = "the server could not find the requested resource";
                return Err(refused(404, "NotFound", message));
            }
            if let Some(protobuf) = inner
                .protobuf
                .clone()
                .filter(|_| request.accept.contains("protobuf"))
            {
                return Ok(futures::stream::iter([Ok(protobuf.into())]).boxed());
            }
            if !parameters.contains_key("watch") {
                return inner.list(&parameters, &labels);
            }
            let chunks = inner.watch(&parameters, labels)?;
            // A real server sends a bookmark 2 s before the end of a watch.
            if let Ok(limit @ 3..) = parameters["timeoutSeconds"].parse::<u64>() {
                let server = Arc::clone(&self.0);
                tokio::spawn(async move {
                    sleep(Duration::from_secs(limit - 2)).await;
                    let holds_back = !server.inner().held.is_empty();
                    if !holds_back {
                        server.bookmark();
                    }
                });
            }
            Ok(chunks)
        })
    }
}

impl Inner {
    fn list(
        &self,
        parameters: &BTreeMap<String, String>,
        labels: &LabelSelector,
    ) -> Result<Chunks, SourceError> {
        self.check_version(parameters)?;
        let items: Vec<&Value> = self
            .objects
            .values()
            .filter(|object| labels.matches(&labels_of(object)))
            .collect();
        let from = match parameters
            .get("continue")
            .map(|token| token.split_once('-').unwrap())
        {
            Some((version, _))
                if version.parse::<u64>().unwrap() < self.version.min(self.compacted) =>
            {
                return Err(refused(
                    410,
                    "Expired",
                    "The provided continue parameter is too old",
                ));
            }
            Some((_, from)) => from.parse().unwrap(),
            None => 0,
        };
        let limit = parameters.get("limit").map_or(usize::MAX, |limit| {
            limit.parse::<usize>().unwrap().min(self.page_size)
        });
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        let end = items.len().min(from + limit.min(items.len()));
        if end < items.len() {
            metadata["continue"] = format!("{}-{end}", self.version).into();
        }
        let strip = |object: &&Value| {
            let mut object = (*object).clone();
            object
                .as_object_mut()
                .unwrap()
                .retain(|field, _| field != "kind" && field != "apiVersion");
            object
        };
        let items: Vec<Value> = items[from.min(end)..end].iter().map(strip).collect();
        let list =
            json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items});
        Ok(chunks(list.to_string()))
    }

    fn check_version(&self, parameters: &BTreeMap<String, String>) -> Result<(), SourceError> {
        let version: u64 = parameters
            .get("resourceVersion")
            .map_or(0, |version| version.parse().unwrap());
        if version > self.version {
            return Err(refused(504, "Timeout", "Too large resource version"));
        }
        Ok(())
    }

    fn watch(
        &mut self,
        parameters: &BTreeMap<String, String>,
        labels: LabelSelector,
    ) -> Result<Chunks, SourceError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if parameters.contains_key("sendInitialEvents") {
            if self.no_stream_lists {
                return Err(refused(
                    422,
                    "Invalid",
                    "sendInitialEvents is forbidden for watch",
                ));
            }
            self.check_version(parameters)?;
            for object in self
                .objects
                .values()
                .filter(|object| labels.matches(&labels_of(object)))
            {
                let _ = sender.send(Ok(format!(
                    "{}\n",
                    json!({"type": "ADDED", "object": object})
                )));
            }
            let _ = sender.send(Ok(format!("{}\n", bookmark(self.version, true))));
        } else {
            let after: u64 = parameters["resourceVersion"].parse().unwrap();
            if after < self.compacted {
                return Err(refused(410, "Expired", "too old resource version"));
            }
            for event in self
                .history
                .iter()
                .filter(|change| change.version > after)
                .filter_map(|own| own.event(&labels))
            {
                let _ = sender.send(Ok(format!("{event}\n")));
            }
        }
        self.watchers.push(Watcher { sender, labels });
        Ok(stream(
            receiver,
            Duration::from_secs(parameters["timeoutSeconds"].parse().unwrap()),
        ))
    }
}

/// A body in small chunks, so that lines and objects are split.
fn chunks(body: String) -> Chunks {
    let pieces: Vec<Result<Bytes, SourceError>> = body
        .into_bytes()
        .chunks(97)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    futures::stream::iter(pieces).boxed()
}

fn stream(
    receiver: mpsc::UnboundedReceiver<Result<String, SourceError>>,
    limit: Duration,
) -> Chunks {
    let end = Instant::now() + limit;
    let next = move |mut receiver: mpsc::UnboundedReceiver<Result<String, SourceError>>| async move {
        tokio::select! {
            biased;
            line = receiver.recv() => match line? {
                Ok(line) => Some((chunks(line), receiver)),
                Err(error) => Some((futures::stream::iter([Err(error)]).boxed(), receiver)),
            },
            () = sleep_until(end) => None,
        }
    };
    futures::stream::unfold(receiver, next).flatten().boxed()
}
