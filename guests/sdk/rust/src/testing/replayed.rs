//! The imports of a recorded call: they answer what the host answered then. At the first question that the recorded call
//! did not ask, they panic, so that a debugger stops in the controller's code.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::rc::Rc;

use flyball_recording::answer::{self, Answer, Found, Memo};
use flyball_recording::{
    Asked, Call, Document, Ended, Header, Malformed, Parted, Reply, Tape, asked,
};
use flyball_types::{ApiError, Catalogue, EventOptions, Projection, Query};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::certificate::{CertificateTemplate, SubjectKey};
use crate::imports::{Cursor, Imports, MetricOperation, Page, Read};
use crate::log::Level;
use crate::reference::ObjectReference;
use crate::time::Time;
use crate::write::{Action, Batch, Write};

/// The panic that stops a call where the recorded call was stopped.
pub(super) struct Stopped;

/// The imports of a recorded call.
pub struct Replayed {
    state: Rc<RefCell<State>>,
}

struct State {
    /// None once the call has ended.
    tape: Option<Tape>,
    /// The point at which a question has parted from the recording.
    parted: Option<Parted>,
    /// Values of the configuration that the recorded call did not ask for.
    config: BTreeMap<String, String>,
    /// The recording, the line and the call.
    place: String,
}

/// The rest of a recorded list.
struct Rest {
    imports: Replayed,
    number: u32,
}

impl Replayed {
    /// The imports of a call of the recording with this header. `config` has the values of the configuration that the
    /// recorded call did not ask for.
    ///
    /// # Errors
    /// The recording is malformed.
    pub fn of(
        header: &Header,
        call: &Call,
        config: BTreeMap<String, String>,
    ) -> Result<Self, Malformed> {
        let state = State {
            tape: Some(Tape::new(header, call)?),
            parted: None,
            config,
            place: call.call.label(),
        };
        Ok(Self {
            state: Rc::new(RefCell::new(state)),
        })
    }

    /// Says where the call is recorded, for messages.
    pub fn at(self, place: &str) -> Self {
        place.clone_into(&mut self.state.borrow_mut().place);
        self
    }

    /// Ends the call. Returns the point at which it parts from its recording; none if it has been repeated. `now` is how
    /// it has ended; none if it was stopped where the recorded call was stopped.
    pub fn end(&self, now: Option<Ended>) -> Option<Parted> {
        let mut state = self.state.borrow_mut();
        let tape = state.tape.take();
        let parted = state.parted.clone();
        parted.or_else(|| tape.and_then(|tape| tape.end(now)))
    }

    /// Ends the call, which must get past its failure if it failed when it was recorded. Returns why it has not; none if
    /// it has, or if a call that did not fail has been repeated.
    pub fn unfixed(&self, now: Option<Ended>) -> Option<String> {
        let still_fails = now.clone().filter(Ended::is_failure);
        match self.end(now) {
            Some(parted) if parted.is_past_failure() => None,
            Some(parted) => Some(self.report(&parted)),
            None => still_fails.map(|ended| {
                let state = self.state.borrow();
                format!("{}: it still {ended}, as when it was recorded", state.place)
            }),
        }
    }

    /// Says where the call parts from its recording, as a test reports it.
    pub fn report(&self, parted: &Parted) -> String {
        let state = self.state.borrow();
        format!(
            "{}: the call parts from its recording {parted}",
            state.place
        )
    }

    /// Whether a question has parted from the recording.
    pub fn has_parted(&self) -> bool {
        self.state.borrow().parted.is_some()
    }

    fn clone_handle(&self) -> Self {
        Self {
            state: Rc::clone(&self.state),
        }
    }

    /// Returns the recorded answer.
    ///
    /// # Panics
    /// If the recorded call did not ask this.
    fn ask(&self, now: Asked) -> Box<RawValue> {
        let reply = {
            let mut state = self.state.borrow_mut();
            state.tape.as_mut().map(|tape| tape.ask(now))
        };
        match reply {
            Some(Reply::Answer(answered)) => answered,
            Some(Reply::Stop) => resume_unwind(Box::new(Stopped)),
            Some(Reply::Parted) => self.part(),
            None => panic!("the call has ended"),
        }
    }

    /// Panics with the point at which the call parts.
    fn part(&self) -> ! {
        let parted = self.end(None);
        self.state.borrow_mut().parted.clone_from(&parted);
        match parted {
            Some(parted) => panic!("{}", self.report(&parted)),
            None => panic!("the call has ended"),
        }
    }

    fn parsed<T>(&self, parsed: Result<T, Malformed>) -> T {
        parsed.unwrap_or_else(|error| {
            if let Some(tape) = &mut self.state.borrow_mut().tape {
                tape.note_malformed(&error);
            }
            self.part()
        })
    }

    fn result<T: DeserializeOwned>(&self, now: Asked) -> Result<T, ApiError> {
        let answered = self.ask(now);
        self.parsed(answer::read_result(&answered))
    }

    fn value<T: DeserializeOwned>(&self, now: Asked) -> T {
        let answered = self.ask(now);
        self.parsed(answer::read_ok(&answered))
    }

    fn document(&self, now: Asked) -> Result<Vec<u8>, ApiError> {
        self.result(now).map(|Document(bytes)| bytes)
    }

    fn page(&self, now: Asked) -> Result<Page, ApiError> {
        let answer::Page { items, rest, .. } = self.result(now)?;
        let rest = rest.map(|number| {
            let imports = self.clone_handle();
            Box::new(Rest { imports, number }) as Box<dyn Cursor>
        });
        Ok(Page {
            items: items.0,
            rest,
        })
    }

    fn with_tape<T>(&self, work: impl FnOnce(&mut Tape) -> T) -> Option<T> {
        self.state.borrow_mut().tape.as_mut().map(work)
    }
}

impl Cursor for Rest {
    fn next(self: Box<Self>, limit: u32) -> Result<Page, ApiError> {
        self.imports.page(asked::lister_next(self.number, limit))
    }
}

impl Imports for Replayed {
    fn share(&self) -> Rc<dyn Imports> {
        Rc::new(self.clone_handle())
    }

    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let found: Found = self.result(asked::lister_get(kind, namespace, name, fields))?;
        Ok(found.object.map(|object| object.0))
    }

    fn lister_list(
        &self,
        query: Query,
        projection: Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        self.page(asked::lister_list(&query, &projection, limit))
    }

    fn lister_count(&self, query: Query) -> Result<u32, ApiError> {
        self.result(asked::lister_count(&query))
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            ..
        } = object;
        self.value(asked::deletion_observed(kind, namespace, name, uid))
    }

    fn reader_run(&self, reads: Vec<Read>) -> Vec<Result<Vec<u8>, ApiError>> {
        let read = |read: Read| {
            self.document(match &read {
                Read::Get {
                    kind,
                    namespace,
                    name,
                    fields,
                } => asked::reader_get(kind, namespace, name, fields),
                Read::List {
                    kind,
                    namespace,
                    parameters,
                    fields,
                } => asked::reader_list(kind, namespace, parameters, fields),
                Read::Raw { path } => asked::reader_raw(path),
            })
        };
        reads.into_iter().map(read).collect()
    }

    fn discovery_kinds(&self) -> Result<Catalogue, ApiError> {
        let kinds: answer::Catalogue = self.result(asked::discovery_kinds())?;
        Ok(kinds.into())
    }

    fn writer_run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
        let count = batch.writes.len();
        if count == 0 {
            return Vec::new();
        }
        let writes = batch.writes.iter().map(write_value).collect();
        let answered = self.ask(asked::writer_run(
            writes,
            batch.slow_start,
            batch.stop_on_error,
        ));
        let answers: Result<Vec<Answer<Document>>, Malformed> = answer::read_ok(&answered);
        let answers = answers.and_then(|answers| match answers.len() == count {
            true => Ok(answers),
            false => Err(Malformed(format!(
                "{count} writes have {} answers",
                answers.len()
            ))),
        });
        let result = |answer: Answer<Document>| match answer {
            Answer::Ok(document) => Ok(document.0),
            Answer::Error(error) => Err(error.into()),
        };
        self.parsed(answers).into_iter().map(result).collect()
    }

    fn events_emit(
        &self,
        about: &ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &EventOptions,
    ) {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            ..
        } = about;
        let about = asked::reference(kind, namespace, name, uid);
        let options = options.to_document();
        self.ask(asked::events_emit(
            about, event_type, reason, message, &options,
        ));
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.queue_add_after(queue, key, 0)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        self.result(asked::queue_add(queue, key, delay_ms))
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.result(asked::queue_forget(queue, key))
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        self.result(asked::queue_requeues(queue, key))
    }

    fn clock_now(&self) -> Time {
        let time = self.with_tape(Tape::clock).unwrap_or_default();
        Time {
            seconds: time.seconds.into(),
            nanoseconds: time.nanoseconds,
        }
    }

    fn random_bytes(&self, count: u32) -> Vec<u8> {
        self.with_tape(|tape| tape.random(count as usize))
            .unwrap_or_default()
    }

    /// Tests show what they print if they fail.
    fn log_write(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let fields = fields
            .iter()
            .map(|(name, value)| format!(" {name}={value:?}"));
        eprintln!(
            "{}: {message}{}",
            level_name(level),
            fields.collect::<String>()
        );
    }

    fn log_enabled(&self, level: Level) -> bool {
        self.with_tape(|tape| tape.is_enabled(level_name(level)))
            .unwrap_or(true)
    }

    fn metrics(&self, _: MetricOperation, _: &str, _: &[&str], _: f64) {}

    fn config_get(&self, key: &str) -> Option<String> {
        let recorded = self.with_tape(|tape| tape.config(key)).flatten();
        recorded.unwrap_or_else(|| self.state.borrow().config.get(key).cloned())
    }

    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        let memo: Memo = self.value(asked::memo_get(key));
        memo.entry.map(|entry| (entry.value.0, entry.version))
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        self.result(asked::memo_put(key, expected, value, object_uid, ttl_ms))
    }

    fn memo_remove(&self, key: &str) {
        self.ask(asked::memo_remove(key));
    }

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        self.result(asked::sign_jwt(key, claims))
    }

    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError> {
        self.document(asked::verify_jwt(key, token))
    }

    fn signer_certificate_authority(&self, signer: &str) -> Result<Vec<Vec<u8>>, ApiError> {
        let certificates: Vec<Document> = self.result(asked::certificate_authority(signer))?;
        Ok(certificates.into_iter().map(|Document(der)| der).collect())
    }

    fn signer_sign_certificate(
        &self,
        signer: &str,
        template: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError> {
        self.document(asked::sign_certificate(signer, template_value(template)))
    }
}

fn write_value(write: &Write) -> Value {
    let Write {
        target,
        action,
        options,
        returns,
    } = write;
    let options = serde_json::to_vec(options).expect("options are valid JSON");
    let common = asked::Write {
        kind: &target.kind,
        namespace: &target.namespace,
        name: &target.name,
        subresource: &target.subresource,
        options: &options,
        returns,
        ..asked::Write::default()
    };
    let write = match action {
        Action::Create(object) => asked::Write {
            verb: "create",
            body: Some(object),
            ..common
        },
        Action::Update(resource_version, change) => asked::Write {
            verb: "update",
            resource_version,
            body: Some(change),
            ..common
        },
        Action::UpdateStatus {
            resource_version,
            status,
            metadata,
        } => asked::Write {
            verb: "update-status",
            resource_version,
            body: Some(status),
            metadata,
            ..common
        },
        Action::Patch(patch_type, patch) => asked::Write {
            verb: "patch",
            patch_type: patch_type.as_str(),
            body: Some(patch),
            ..common
        },
        Action::Delete => asked::Write {
            verb: "delete",
            ..common
        },
        Action::DeleteCollection(label_selector, field_selector) => asked::Write {
            verb: "delete-collection",
            label_selector,
            field_selector,
            ..common
        },
    };
    write.value()
}

/// The fields of a template as recordings have them.
fn template_value(template: &CertificateTemplate) -> Value {
    let seconds = |time: Time| time.seconds.clamp(0, u32::MAX.into());
    let name = |attributes: &Vec<crate::certificate::Attribute>| -> Vec<(String, String)> {
        let pair = |own: &crate::certificate::Attribute| (own.oid.clone(), own.value.clone());
        attributes.iter().map(pair).collect()
    };
    let key = match &template.key {
        SubjectKey::PublicKey(der) => json!({"publicKey": Document::value(der)}),
        SubjectKey::Request(der) => json!({"request": Document::value(der)}),
    };
    json!({
        "key": key,
        "subject": template.subject.iter().map(name).collect::<Vec<_>>(),
        "dnsNames": template.dns_names,
        "emailAddresses": template.email_addresses,
        "ipAddresses": template.ip_addresses,
        "uris": template.uris,
        "keyUsages": template.key_usages.bits(),
        "extendedKeyUsages": template.extended_key_usages,
        "notBefore": seconds(template.not_before),
        "notAfter": seconds(template.not_after),
    })
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Trace => "trace",
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}
