//! Runs calls on a cluster, or on a recorded call.

use std::path::Path;
use std::time::Duration;

use flyball_sdk::imports::{Cursor, Imports, MetricOperation, Page};
use flyball_sdk::log::Level;
use flyball_sdk::testing::{Cluster, Replayed};
use flyball_sdk::write::Batch;
use flyball_sdk::{ApiError, Kind, merge, write};
use flyball_types::EventOptions;
use flyball_types::description::Description;
use serde_json::{Value, json};

use crate::documents::{Bytes, Instant};
use crate::protocol::Call;
use crate::result::{Failure, Result, ok};
use crate::{manifests, recordings, records};

/// A cluster, or a recorded call, with the lists that the controller has not read to the end.
#[derive(Default)]
pub(crate) struct Open {
    cluster: Cluster,
    /// Answers the controller in place of the cluster.
    recorded: Option<Replayed>,
    /// The rests of lists by their number; `None` once they are read.
    rests: Vec<Option<Box<dyn Cursor>>>,
}

impl Open {
    /// A recorded call.
    pub(crate) fn recorded(recorded: Replayed) -> Self {
        Self {
            recorded: Some(recorded),
            ..Self::default()
        }
    }

    pub(crate) fn run(&mut self, call: Call) -> Result {
        let cluster = &self.cluster;
        let imports: &dyn Imports = match &self.recorded {
            Some(recorded) => recorded,
            None => cluster,
        };
        match call {
            Call::New | Call::Recording { .. } | Call::Replay { .. } => {
                Err(Failure::Mistake("the cluster exists".into()))
            }
            Call::Replayed { ended, fixed } => {
                let recorded = self.recorded.as_ref();
                let recorded =
                    recorded.ok_or_else(|| "it is a cluster, and no recorded call".to_owned())?;
                recordings::end(recorded, &ended, fixed)
            }
            Call::Restrict { description: None } => {
                cluster.host();
                done()
            }
            Call::Restrict {
                description: Some(document),
            } => {
                let description = Description::read(&document.to_string());
                let description = description.map_err(|error| error.to_string())?.into();
                cluster.check_fields(&description)?;
                cluster.restrict(description);
                done()
            }
            Call::Put { object } => {
                cluster.try_put(complete(object)?)?;
                done()
            }
            Call::Define { file } => {
                define(cluster, &file)?;
                done()
            }
            Call::PutLive { object } => {
                cluster.put_live(complete(object)?);
                done()
            }
            Call::RemoveLive(key) => {
                cluster.remove_live(&key.kind, &key.namespace, &key.name);
                done()
            }
            Call::Edit { key, patch } => {
                cluster.edit(&key.kind, &key.namespace, &key.name, |object| {
                    merge::apply(object, &patch);
                });
                done()
            }
            Call::Replace { object } => {
                let object = complete(object)?;
                let text = |pointer| {
                    object
                        .pointer(pointer)
                        .and_then(Value::as_str)
                        .unwrap_or("")
                };
                let kind = Kind::of_object(text("/apiVersion"), text("/kind")).to_string();
                let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
                cluster.edit(&kind, namespace, name, |own| *own = object.clone());
                done()
            }
            Call::Delete(key) => {
                cluster.delete(&key.kind, &key.namespace, &key.name);
                done()
            }
            Call::Remove(key) => {
                cluster.remove(&key.kind, &key.namespace, &key.name);
                done()
            }
            Call::ObserveDeletion(reference) => {
                let object: flyball_sdk::ObjectReference = reference.into();
                cluster.observe_deletion(
                    &object.kind,
                    &object.namespace,
                    &object.name,
                    &object.uid,
                );
                done()
            }
            Call::PutRaw { path, answer } => {
                cluster.put_raw(&path, answer);
                done()
            }
            Call::Serve {
                kind,
                plural,
                namespaced,
                verbs,
                subresources,
            } => {
                cluster.serve(&kind, &plural, namespaced, &borrowed(&verbs));
                for (name, verbs) in &subresources {
                    cluster.serve_subresource(&kind, name, &borrowed(verbs));
                }
                done()
            }
            Call::FailDiscovery {
                group_version,
                message,
            } => {
                cluster.fail_discovery(&group_version, &message);
                done()
            }
            Call::Fail {
                verb,
                kind,
                nth,
                error,
            } => {
                cluster.fail_nth(&verb, &kind, nth, error.try_into()?);
                done()
            }
            Call::Answer { kind, answer } => {
                cluster.answer(&kind, answer);
                done()
            }
            Call::LimitRate { calls, window_ms } => {
                cluster.limit_rate(calls, Duration::from_millis(window_ms));
                done()
            }
            Call::SetConfig { key, value } => {
                cluster.set_config(&key, &value);
                done()
            }
            Call::SetNow { time } => {
                cluster.set_now(time.into());
                done()
            }
            Call::Advance { ms } => {
                cluster.advance(Duration::from_millis(ms));
                done()
            }
            Call::AddKey { name } => {
                cluster.add_key(&name);
                done()
            }
            Call::AddAuthority { signer } => {
                cluster.add_authority(&signer);
                done()
            }

            Call::Object(key) => ok(cluster.object(&key.kind, &key.namespace, &key.name)),
            Call::Objects { kind } => ok(cluster.objects(&kind)),
            Call::Writes => ok(records::list(cluster.writes(), records::written)),
            Call::LiveReads => ok(cluster.live_reads()),
            Call::Events => ok(records::list(cluster.recorded_events(), records::event)),
            Call::Enqueued => ok(records::list(cluster.enqueued(), records::enqueued)),
            Call::Logs => ok(records::list(cluster.recorded_logs(), records::logged)),
            Call::Metrics => ok(records::list(cluster.metrics(), records::measured)),
            Call::Signed => ok(records::list(cluster.signed(), records::signed)),
            Call::Certificates => ok(records::list(cluster.certificates(), records::certificate)),

            Call::ListerGet { key, fields } => {
                let fields = borrowed(&fields);
                let found = imports.lister_get(&key.kind, &key.namespace, &key.name, &fields)?;
                found.as_deref().map_or_else(done, document)
            }
            Call::ListerList {
                query,
                projection,
                limit,
            } => {
                let page = imports.lister_list(query.try_into()?, projection.into(), limit)?;
                self.page(page)
            }
            Call::ListerNext { rest, limit } => {
                let rest = self.rests.get_mut(rest).and_then(Option::take);
                let rest = rest.ok_or_else(|| "there is no such rest of a list".to_owned())?;
                let page = rest.next(limit)?;
                self.page(page)
            }
            Call::ListerCount { query } => ok(imports.lister_count(query.try_into()?)?),
            Call::ListerDeletionObserved { object } => {
                ok(imports.lister_deletion_observed(&object.into()))
            }
            Call::ReaderRun { reads } => {
                let reads = reads.into_iter().map(Into::into).collect();
                results(imports.reader_run(reads))
            }
            Call::DiscoveryKinds => ok(records::catalogue(imports.discovery_kinds()?)),
            Call::WriterRun {
                writes,
                slow_start,
                stop_on_error,
            } => {
                let writes = writes.into_iter().map(write::Write::try_from);
                results(imports.writer_run(Batch {
                    writes: writes.collect::<std::result::Result<_, _>>()?,
                    slow_start: (slow_start > 0).then_some(slow_start),
                    stop_on_error,
                }))
            }
            Call::EventsEmit {
                about,
                event_type,
                reason,
                message,
                options,
            } => {
                let options = options.map_or_else(Vec::new, |options| options.to_string().into());
                let options = EventOptions::parse(&options).map_err(|error| error.to_string())?;
                imports.events_emit(&about.into(), &event_type, &reason, &message, &options);
                done()
            }
            Call::QueueAdd {
                queue,
                key,
                delay_ms,
            } => ok(imports.queue_add_after(&queue, &key, delay_ms)?),
            Call::QueueForget { queue, key } => ok(imports.queue_forget(&queue, &key)?),
            Call::QueueRequeues { queue, key } => ok(imports.queue_requeues(&queue, &key)?),
            Call::ClockNow => ok(Instant::from(imports.clock_now())),
            Call::RandomBytes { count } => ok(Bytes(imports.random_bytes(count))),
            Call::LogWrite {
                level,
                message,
                fields,
            } => {
                imports.log_write(level_of(&level)?, &message, &fields);
                done()
            }
            Call::MetricsRecord {
                operation,
                name,
                labels,
                value,
            } => {
                let operation = operation_of(&operation)?;
                Imports::metrics(imports, operation, &name, &borrowed(&labels), value);
                done()
            }
            Call::ConfigGet { key } => ok(imports.config_get(&key)),
            Call::MemoGet { key } => {
                let entry = |(value, version)| json!({"value": Bytes(value), "version": version});
                ok(imports.memo_get(&key).map(entry))
            }
            Call::MemoPut {
                key,
                expected,
                value,
                object_uid,
                ttl_ms,
            } => ok(imports.memo_put(&key, expected, &value.0, &object_uid, ttl_ms)?),
            Call::MemoRemove { key } => {
                imports.memo_remove(&key);
                done()
            }
            Call::SignerSignJwt { key, claims } => {
                ok(imports.signer_sign_jwt(&key, claims.to_string().as_bytes())?)
            }
            Call::SignerVerifyJwt { key, token } => {
                document(&imports.signer_verify_jwt(&key, &token)?)
            }
            Call::SignerCertificateAuthority { signer } => {
                let certificates = imports.signer_certificate_authority(&signer)?;
                ok(records::list(certificates, Bytes))
            }
            Call::SignerSignCertificate { signer, template } => {
                let template = template.try_into()?;
                ok(Bytes(imports.signer_sign_certificate(&signer, &template)?))
            }
        }
    }

    /// `{"items": […], "rest": 0}`: the rest is null on the last page.
    fn page(&mut self, page: Page) -> Result {
        let rest = page.rest.map(|rest| {
            self.rests.push(Some(rest));
            self.rests.len() - 1
        });
        ok(json!({"items": document(&page.items)?, "rest": rest}))
    }
}

/// The result of a call that returns nothing.
fn done() -> Result {
    Ok(Value::Null)
}

fn document(bytes: &[u8]) -> Result {
    serde_json::from_slice(bytes).map_err(|error| Failure::Mistake(error.to_string()))
}

/// `[{"ok": …}, {"error": …}]`; a write that returns nothing has null.
fn results(results: Vec<std::result::Result<Vec<u8>, ApiError>>) -> Result {
    let one = |result: std::result::Result<Vec<u8>, ApiError>| match result {
        Ok(bytes) if bytes.is_empty() => Ok(json!({"ok": null})),
        Ok(bytes) => Ok(json!({"ok": document(&bytes)?})),
        Err(error) => Ok(json!({"error": crate::documents::Error::from(error)})),
    };
    results.into_iter().map(one).collect::<Result>()
}

/// Returns an object if it has what identifies it.
fn complete(object: Value) -> std::result::Result<Value, String> {
    for field in ["/apiVersion", "/kind", "/metadata/name"] {
        if object
            .pointer(field)
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            return Err(format!("an object lacks {field}: {object}"));
        }
    }
    Ok(object)
}

/// Puts the objects of a file into a cluster.
fn define(cluster: &Cluster, file: &Path) -> std::result::Result<(), String> {
    let place = |problem: String| format!("{}: {problem}", file.display());
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| place(format!("the file can't be read: {error}")))?;
    let objects = manifests::parse(&text);
    let objects = objects.map_err(|error| place(format!("the file is not YAML: {error}")))?;
    if !objects.iter().any(manifests::is_definition) {
        return Err(place("the file has no CustomResourceDefinition".into()));
    }
    let mut objects = objects.into_iter();
    objects.try_for_each(|object| cluster.try_put(complete(object)?).map_err(place))
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn level_of(name: &str) -> std::result::Result<Level, String> {
    let found = records::LEVELS.iter().find(|(_, own)| *own == name);
    found
        .map(|(level, _)| *level)
        .ok_or_else(|| format!("there is no level `{name}`"))
}

fn operation_of(name: &str) -> std::result::Result<MetricOperation, String> {
    let found = records::OPERATIONS.iter().find(|(_, own)| *own == name);
    found
        .map(|(operation, _)| *operation)
        .ok_or_else(|| format!("a metric has no operation `{name}`"))
}
