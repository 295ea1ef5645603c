//! The imports of a call that is noted: each function passes the call on, and notes question and answer.

mod common;
mod pages;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use flyball_plugin::{
    Allowance, Batch, CertificateTemplate, Charge, CloudCall, CloudError, Held, HttpGrant, Imports,
    LogLevel, MemoEntry, Metered, ObjectReference, Page, Read,
};
use flyball_recording::answer::{self, Answer};
use flyball_recording::{Document, asked};
use flyball_types::{ApiError, Catalogue, Projection, Query};
use futures::FutureExt;
use futures::future::BoxFuture;

use self::common::{MANY, size_of_reference};
use self::pages::note_page;
use crate::convert;
use crate::notes::Notes;

/// Imports that are noted.
pub(crate) struct Recorded {
    inner: Arc<dyn Imports>,
    notes: Arc<Notes>,
}

impl Recorded {
    pub(crate) fn new(inner: Arc<dyn Imports>, notes: Arc<Notes>) -> Arc<Self> {
        Arc::new(Self { inner, notes })
    }
}

impl Imports for Recorded {
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        let found = self.inner.lister_get(kind, namespace, name, fields);
        let answered =
            convert::size_of_result(&found, |found| found.as_ref().map_or(0, Bytes::len));
        let size = kind.len() + namespace.len() + name.len() + convert::size_of_texts(fields);
        self.notes.add(
            size + answered,
            || {
                let names = [kind, namespace, name].map(str::to_owned);
                let fields = fields.to_vec();
                move || asked::lister_get(&names[0], &names[1], &names[2], &fields)
            },
            || {
                let found = found.clone();
                move || {
                    let document = |bytes: &Bytes| Document(bytes.to_vec());
                    let found = found.as_ref().map(|object| answer::Found {
                        object: object.as_ref().map(document),
                    });
                    answer::write_result(found)
                }
            },
        );
        found
    }

    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
        allowance: &Allowance,
    ) -> Result<Page, ApiError> {
        let page = self.inner.lister_list(query, projection, limit, allowance);
        let paths = match projection {
            Projection::All => 0,
            Projection::Fields(paths) | Projection::Columns(paths) => convert::size_of_texts(paths),
        };
        let size = convert::size_of_query(query) + paths;
        note_page(&self.notes, page, size, || {
            let (query, projection) = (query.clone(), projection.clone());
            move || asked::lister_list(&query, &projection, limit)
        })
    }

    fn lister_count(&self, query: &Query, allowance: &Allowance) -> Result<u32, ApiError> {
        let count = self.inner.lister_count(query, allowance);
        self.notes.add(
            convert::size_of_query(query),
            || {
                let query = query.clone();
                move || asked::lister_count(&query)
            },
            || {
                let count = count.clone();
                move || answer::write_result(count.as_ref())
            },
        );
        count
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        let observed = self.inner.lister_deletion_observed(object);
        self.notes.add(
            size_of_reference(object),
            || {
                let object = object.clone();
                move || {
                    asked::deletion_observed(
                        &object.kind,
                        &object.namespace,
                        &object.name,
                        &object.uid,
                    )
                }
            },
            || move || answer::write_ok(observed),
        );
        observed
    }

    fn reader_read(
        &self,
        read: Read,
        allowance: Allowance,
    ) -> BoxFuture<'_, Result<Held, ApiError>> {
        let place = self.notes.ask(convert::size_of_read(&read), || {
            let read = read.clone();
            move || convert::read(&read)
        });
        async move {
            let result = self.inner.reader_read(read, allowance).await;
            let size = convert::size_of_result(&result, |held| held.bytes.len());
            self.notes.answer(place, size, || {
                let result = result
                    .as_ref()
                    .map(|held| held.bytes.clone())
                    .map_err(Clone::clone);
                move || answer::write_result(result.as_ref().map(|bytes| Document(bytes.to_vec())))
            });
            result
        }
        .boxed()
    }

    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>> {
        let place = self.notes.ask(0, || asked::discovery_kinds);
        async move {
            let kinds = self.inner.discovery_kinds().await;
            // A kind has about ten names, of verbs most of them.
            let size = convert::size_of_result(&kinds, |kinds| kinds.kinds.len() * 512);
            self.notes.answer(place, size, || {
                let kinds = kinds.clone();
                move || answer::write_result(kinds.as_ref().map(answer::Catalogue::from))
            });
            kinds
        }
        .boxed()
    }

    fn writer_run(
        &self,
        batch: Batch,
        charge: Charge,
        allowance: Allowance,
    ) -> BoxFuture<'_, Vec<Result<Held, ApiError>>> {
        let place = self.notes.ask(convert::size_of_batch(&batch), || {
            let batch = batch.clone();
            move || convert::batch(&batch)
        });
        async move {
            let results = self.inner.writer_run(batch, charge, allowance).await;
            let size = results
                .iter()
                .map(|result| convert::size_of_result(result, |held| held.bytes.len()));
            let size: usize = size.sum();
            self.notes.answer(place, size, || {
                let result = |result: &Result<Held, ApiError>| match result {
                    Ok(held) => Ok(held.bytes.clone()),
                    Err(error) => Err(error.clone()),
                };
                let results: Vec<Result<Bytes, ApiError>> = results.iter().map(result).collect();
                move || {
                    let one = |result: &Result<Bytes, ApiError>| match result {
                        Ok(bytes) => Answer::Ok(Document(bytes.to_vec())),
                        Err(error) => Answer::Error(answer::Error::from(error)),
                    };
                    answer::write_ok(results.iter().map(one).collect::<Vec<_>>())
                }
            });
            results
        }
        .boxed()
    }

    fn events_emit(
        &self,
        about: ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &[u8],
    ) {
        let texts = event_type.len() + reason.len() + message.len() + options.len();
        self.notes.add(
            size_of_reference(&about) + texts,
            || {
                let about = about.clone();
                let texts = [event_type, reason, message].map(str::to_owned);
                let options = options.to_vec();
                move || {
                    let [event_type, reason, message] = &texts;
                    let about = convert::reference(&about);
                    asked::events_emit(about, event_type, reason, message, &options)
                }
            },
            || || answer::write_ok(()),
        );
        self.inner
            .events_emit(about, event_type, reason, message, options);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        let added = self.inner.queue_add(queue, key);
        self.note_queue(queue, key, &added, |queue, key| {
            asked::queue_add(queue, key, 0)
        });
        added
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        let added = self.inner.queue_add_after(queue, key, delay_ms);
        self.note_queue(queue, key, &added, move |queue, key| {
            asked::queue_add(queue, key, delay_ms)
        });
        added
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        let forgotten = self.inner.queue_forget(queue, key);
        self.note_queue(queue, key, &forgotten, asked::queue_forget);
        forgotten
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        let requeues = self.inner.queue_requeues(queue, key);
        self.note_queue(queue, key, &requeues, asked::queue_requeues);
        requeues
    }

    fn clock_now(&self) -> SystemTime {
        let now = self.inner.clock_now();
        self.notes.add(
            0,
            || asked::clock_now,
            || move || answer::write_ok(convert::time(now)),
        );
        now
    }

    fn random_bytes(&self, buffer: &mut [u8]) {
        self.inner.random_bytes(buffer);
        let count = buffer.len();
        self.notes.add(
            count,
            || move || asked::random_bytes(count),
            || {
                let bytes = buffer.to_vec();
                move || answer::write_ok(Document(bytes))
            },
        );
    }

    fn log_write(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
        let texts = fields
            .iter()
            .map(|(name, value)| name.len() + value.len() + 2 * size_of::<String>());
        self.notes.add(
            message.len() + texts.sum::<usize>(),
            || {
                let (message, fields) = (message.to_owned(), fields.to_vec());
                move || asked::log_write(level.name(), &message, &fields)
            },
            || || answer::write_ok(()),
        );
        self.inner.log_write(level, message, fields);
    }

    fn log_enabled(&self, level: LogLevel) -> bool {
        let enabled = self.inner.log_enabled(level);
        self.notes.add(
            0,
            || move || asked::log_enabled(level.name()),
            || move || answer::write_ok(enabled),
        );
        enabled
    }

    fn metrics_add(&self, name: &str, labels: &[String], value: f64) {
        self.note_metric("add", name, labels, value);
        self.inner.metrics_add(name, labels, value);
    }

    fn metrics_set(&self, name: &str, labels: &[String], value: f64) {
        self.note_metric("set", name, labels, value);
        self.inner.metrics_set(name, labels, value);
    }

    fn metrics_observe(&self, name: &str, labels: &[String], value: f64) {
        self.note_metric("observe", name, labels, value);
        self.inner.metrics_observe(name, labels, value);
    }

    fn config_get(&self, key: &str) -> Option<String> {
        let value = self.inner.config_get(key);
        let size = key.len() + value.as_ref().map_or(0, String::len);
        self.notes.add(
            size,
            || {
                let key = key.to_owned();
                move || asked::config_get(&key)
            },
            || {
                let value = value.clone();
                move || answer::write_ok(value)
            },
        );
        value
    }

    fn memo_get(&self, key: &str) -> Option<MemoEntry> {
        let entry = self.inner.memo_get(key);
        let size = key.len() + entry.as_ref().map_or(0, |entry| entry.value.len());
        self.notes.add(
            size,
            || {
                let key = key.to_owned();
                move || asked::memo_get(&key)
            },
            || {
                let entry = entry.clone();
                move || {
                    let entry = entry.map(|entry| answer::MemoEntry {
                        value: Document(entry.value.to_vec()),
                        version: entry.version,
                    });
                    answer::write_ok(answer::Memo { entry })
                }
            },
        );
        entry
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        let put = self
            .inner
            .memo_put(key, expected, value.clone(), object_uid, ttl_ms);
        self.notes.add(
            key.len() + value.len() + object_uid.len(),
            || {
                let (key, object_uid) = (key.to_owned(), object_uid.to_owned());
                move || asked::memo_put(&key, expected, &value, &object_uid, ttl_ms)
            },
            || {
                let put = put.clone();
                move || answer::write_result(put.as_ref())
            },
        );
        put
    }

    fn memo_remove(&self, key: &str) {
        self.notes.add(
            key.len(),
            || {
                let key = key.to_owned();
                move || asked::memo_remove(&key)
            },
            || || answer::write_ok(()),
        );
        self.inner.memo_remove(key);
    }

    fn signer_sign_jwt(&self, key: String, claims: Vec<u8>) -> BoxFuture<'_, Metered<String>> {
        let place = self.notes.ask(key.len() + claims.len(), || {
            let (key, claims) = (key.clone(), claims.clone());
            move || asked::sign_jwt(&key, &claims)
        });
        let signed = self.inner.signer_sign_jwt(key, claims);
        self.metered(place, signed, |token| token).boxed()
    }

    fn signer_verify_jwt(&self, key: String, token: String) -> BoxFuture<'_, Metered<Vec<u8>>> {
        let place = self.notes.ask(key.len() + token.len(), || {
            let (key, token) = (key.clone(), token.clone());
            move || asked::verify_jwt(&key, &token)
        });
        let verified = self.inner.signer_verify_jwt(key, token);
        self.metered(place, verified, Document).boxed()
    }

    fn signer_certificate_authority(&self, signer: String) -> BoxFuture<'_, Metered<Vec<Vec<u8>>>> {
        let place = self.notes.ask(signer.len(), || {
            let signer = signer.clone();
            move || asked::certificate_authority(&signer)
        });
        let read = self.inner.signer_certificate_authority(signer);
        let documents =
            |certificates: Vec<Vec<u8>>| certificates.into_iter().map(Document).collect::<Vec<_>>();
        self.metered(place, read, documents).boxed()
    }

    fn signer_sign_certificate(
        &self,
        signer: String,
        template: CertificateTemplate,
    ) -> BoxFuture<'_, Metered<Vec<u8>>> {
        let place = self.notes.ask(signer.len() + MANY, || {
            let (signer, template) = (signer.clone(), template.clone());
            move || asked::sign_certificate(&signer, convert::template(&template))
        });
        let signed = self.inner.signer_sign_certificate(signer, template);
        self.metered(place, signed, Document).boxed()
    }

    fn cloud_capabilities(&self) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        let place = self.notes.ask(0, || asked::cloud_capabilities);
        self.of_cloud(place, self.inner.cloud_capabilities())
            .boxed()
    }

    fn cloud_call(&self, call: CloudCall) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        let size = call.method.len() + call.arguments.len() + call.nodes.len();
        let place = self.notes.ask(size, || {
            let call = call.clone();
            move || asked::cloud_call(&call.method, &call.arguments, &call.nodes)
        });
        self.of_cloud(place, self.inner.cloud_call(call)).boxed()
    }

    fn credential(&self, name: &str) -> Option<Bytes> {
        let credential = self.inner.credential(name);
        let size = name.len() + credential.as_ref().map_or(0, Bytes::len);
        self.notes.add(
            size,
            || {
                let name = name.to_owned();
                move || asked::credentials_get(&name)
            },
            || {
                let credential = credential.clone();
                move || answer::write_ok(credential.map(|bytes| Document(bytes.to_vec())))
            },
        );
        credential
    }

    fn http(&self, server: &str) -> Result<HttpGrant, ApiError> {
        self.notes.add(
            server.len(),
            || {
                let server = server.to_owned();
                move || asked::http(&server)
            },
            || || answer::write_ok(()),
        );
        self.inner.http(server)
    }
}
