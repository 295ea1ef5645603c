//! The fake cluster's implementation of the imports.

use std::any::{Any, TypeId};
use std::rc::Rc;
use std::time::Duration;

use flyball_types::{ApiError, Catalogue, EventOptions, Projection, Query};
use serde_json::Value;

use crate::certificate::CertificateTemplate;
use crate::imports::{Cursor, Imports, MetricOperation, Page, Read};
use crate::log::Level;
use crate::reference::ObjectReference;
use crate::time::Time;
use crate::write::{Batch, MAX_BATCH};

use super::reads::{Rest, in_scope, invalid};
use super::store::Id;
use super::{Cluster, ClusterState, Enqueued, Event, Logged, Signed};

impl Imports for Cluster {
    fn share(&self) -> Rc<dyn Imports> {
        Rc::new(Self {
            state: Rc::clone(&self.state),
        })
    }

    fn extension(&self, kind: TypeId) -> Option<Rc<dyn Any>> {
        self.state.borrow().extensions.get(&kind).cloned()
    }

    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let state = self.state.borrow();
        let watches = state.watches(kind)?;
        let found = state
            .store
            .get(&Id::new(kind, namespace, name))
            .filter(|object| in_scope(&watches, object));
        found
            .map(|object| state.project(kind, object, fields))
            .transpose()
    }

    fn lister_list(
        &self,
        query: Query,
        projection: Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        let state = self.state.borrow();
        if let Some(lister) = &state.lister {
            return Ok(lister(&query, &projection));
        }
        let objects = state.run(&query, &projection)?;
        Box::new(Rest(objects)).next(limit)
    }

    fn lister_count(&self, query: Query) -> Result<u32, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.fail_if_due("count", &query.kind)?;
        Ok(state.run(&query, &Projection::All)?.len() as u32)
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        self.state.borrow().deleted.contains(object)
    }

    fn reader_run(&self, reads: Vec<Read>) -> Vec<Result<Vec<u8>, ApiError>> {
        let state = &mut *self.state.borrow_mut();
        reads.iter().map(|read| state.read(read)).collect()
    }

    fn discovery_kinds(&self) -> Result<Catalogue, ApiError> {
        let state = &mut *self.state.borrow_mut();
        if state
            .description
            .as_ref()
            .is_some_and(|description| !description.imports.contains("discovery"))
        {
            return Err(ApiError::denied(
                "the plugin does not ask to use `discovery`: add `import(\"discovery\")` to its description",
            ));
        }
        state.fail_if_due("discover", "")?;
        Ok(state.catalogue.clone())
    }

    /// All writes of a round are carried out even if one fails, as if they ran concurrently.
    /// Without slow start and stop on error, the batch is one round.
    fn writer_run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
        let state = &mut *self.state.borrow_mut();
        let count = batch.writes.len();
        if count > MAX_BATCH {
            let message =
                format!("a batch has at most {MAX_BATCH} writes, and this one has {count}");
            return vec![Err(ApiError::full(message)); count];
        }
        let initial = if batch.stop_on_error {
            Some(1)
        } else {
            batch.slow_start
        };
        // The end of the current round: after 1, 3, 7, … writes with a slow start of 1.
        let mut end = initial.map_or(usize::MAX, |initial| initial.max(1) as usize);
        let mut results: Vec<Result<_, ApiError>> = Vec::new();
        let mut failed = false;
        for write in batch.writes {
            if results.len() == end {
                failed = results.iter().any(Result::is_err);
                end = if batch.stop_on_error {
                    end + 1
                } else {
                    2 * end + initial.map_or(0, |one| one.max(1) as usize)
                };
            }
            results.push(if failed {
                Err(ApiError::skipped())
            } else {
                state.write(write)
            });
        }
        results
    }

    fn events_emit(
        &self,
        about: &ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &EventOptions,
    ) {
        let event = Event {
            about: about.clone(),
            event_type: event_type.into(),
            reason: reason.into(),
            message: message.into(),
            options: options.clone(),
        };
        let mut state = self.state.borrow_mut();
        if event.options.once && !state.once.insert(event.identity()) {
            return;
        }
        state.events.push(event);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.queue_add_after(queue, key, 0)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        let delay = Duration::from_millis(delay_ms.into());
        self.state.borrow_mut().enqueued.push(Enqueued {
            queue: queue.into(),
            key: key.into(),
            delay,
        });
        Ok(())
    }

    fn queue_forget(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Ok(())
    }

    fn queue_requeues(&self, _: &str, _: &str) -> Result<u32, ApiError> {
        Ok(0)
    }

    fn clock_now(&self) -> Time {
        self.state.borrow().store.now
    }

    /// The same sequence of bytes in each run (xorshift).
    fn random_bytes(&self, count: u32) -> Vec<u8> {
        let state = &mut *self.state.borrow_mut();
        let mut next = || {
            for shift in [13, -7, 17_i32] {
                let shifted = if shift > 0 {
                    state.random << shift
                } else {
                    state.random >> -shift
                };
                state.random ^= shifted;
            }
            (state.random >> 32) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    fn log_write(&self, level: Level, message: &str, fields: &[(String, String)]) {
        self.state.borrow_mut().logs.push(Logged {
            level,
            message: message.into(),
            fields: fields.to_vec(),
        });
    }

    fn log_enabled(&self, _: Level) -> bool {
        true
    }

    fn metrics(&self, operation: MetricOperation, name: &str, labels: &[&str], value: f64) {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.state
            .borrow_mut()
            .metrics
            .push((operation, name.into(), labels, value));
    }

    fn config_get(&self, key: &str) -> Option<String> {
        let state = self.state.borrow();
        let default = || state.description.as_ref()?.config.get(key)?.default.clone();
        state.config.get(key).cloned().or_else(default)
    }

    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        let state = &mut *self.state.borrow_mut();
        state.memo.forget(&state.store.take_deleted());
        state.memo.get(key, state.store.now)
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.memo.forget(&state.store.take_deleted());
        let (now, ttl) = (state.store.now, Duration::from_millis(ttl_ms.into()));
        state.memo.put(key, expected, value, object_uid, ttl, now)
    }

    fn memo_remove(&self, key: &str) {
        self.state.borrow_mut().memo.remove(key);
    }

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.admit_key(key)?;
        let claims = serde_json::from_slice(claims)
            .map(Value::Object)
            .map_err(invalid)?;
        let token = format!("toy.{key}.{}", state.signed.len());
        state.signed.push(Signed {
            key: key.into(),
            claims,
            token: token.clone(),
        });
        Ok(token)
    }

    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError> {
        let state = self.state.borrow();
        state.admit_key(key)?;
        let known = state
            .signed
            .iter()
            .find(|signed| signed.key == key && signed.token == token);
        let other =
            || ApiError::unauthorized(format!("the token was not signed by the key `{key}`"));
        known
            .map(|signed| signed.claims.to_string().into_bytes())
            .ok_or_else(other)
    }

    fn signer_certificate_authority(&self, signer: &str) -> Result<Vec<Vec<u8>>, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.fail_if_due("authority", signer)?;
        state.admit_authority(signer)?;
        Ok(vec![format!("the authority of {signer}").into_bytes()])
    }

    fn signer_sign_certificate(
        &self,
        signer: &str,
        template: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.fail_if_due("sign", signer)?;
        state.admit_authority(signer)?;
        let certificate = format!("certificate {}", state.certificates.len());
        state.certificates.push((signer.into(), template.clone()));
        Ok(certificate.into_bytes())
    }
}

impl ClusterState {
    /// Whether the plugin requests the signer and the key exists.
    fn admit_key(&self, key: &str) -> Result<(), ApiError> {
        self.admit_signer()?;
        let missing = || ApiError::not_found(format!("the host has no key named `{key}`"));
        self.keys
            .iter()
            .any(|known| known == key)
            .then_some(())
            .ok_or_else(missing)
    }

    /// Whether the plugin requests the signer and the authority exists.
    fn admit_authority(&self, signer: &str) -> Result<(), ApiError> {
        self.admit_signer()?;
        let missing = || {
            ApiError::not_found(format!(
                "the host has no authority for the signer `{signer}`"
            ))
        };
        self.authorities
            .iter()
            .any(|known| known == signer)
            .then_some(())
            .ok_or_else(missing)
    }

    fn admit_signer(&self) -> Result<(), ApiError> {
        if self
            .description
            .as_ref()
            .is_some_and(|description| !description.imports.contains("signer"))
        {
            return Err(ApiError::denied(
                "the plugin does not ask to use `signer`: add `import(\"signer\")` to its description",
            ));
        }
        Ok(())
    }
}
