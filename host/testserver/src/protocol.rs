//! Calls and replies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::documents::{
    Bytes, Error, Instant, Key, Projection, Query, Read, Reference, Template, Write,
};

/// A line of the input.
#[derive(Deserialize)]
pub(crate) struct Request {
    /// The number of the cluster that the call is for; not needed for `new`.
    #[serde(default)]
    pub(crate) cluster: usize,
    #[serde(flatten)]
    pub(crate) call: Call,
}

/// A line of the output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reply {
    /// The result of the call.
    Ok(Value),
    /// The error that the function of the world returns to the controller.
    Error(Error),
    /// The call is wrong: the test or its SDK is to be corrected.
    Mistake(String),
}

/// The name of a call and its arguments.
#[derive(Deserialize)]
#[serde(tag = "call", content = "with", deny_unknown_fields)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum Call {
    // The test sets up a cluster.
    /// Creates a cluster. The result is its number.
    New,
    /// Lists the calls of a recording that can be repeated.
    Recording {
        file: PathBuf,
        /// Whether one of them must have failed when it was recorded.
        #[serde(default)]
        fixed: bool,
    },
    /// Opens a call of a recording in place of a cluster. The result is its number.
    Replay {
        file: PathBuf,
        /// The line of the call in the recording, from 1.
        line: usize,
    },
    /// Ends a call of a recording.
    Replayed {
        /// As in a recording.
        ended: Value,
        /// Whether a call that failed when it was recorded must get past its failure.
        #[serde(default)]
        fixed: bool,
    },
    /// Restricts the functions of the world to the declarations and requests of this description; null ends the
    /// restrictions.
    Restrict {
        description: Option<Value>,
    },
    Put {
        object: Value,
    },
    /// Puts the objects of a file in YAML, which has CustomResourceDefinitions.
    Define {
        file: PathBuf,
    },
    PutLive {
        object: Value,
    },
    RemoveLive(Key),
    /// Changes an object like another client, by a merge patch of any of its fields.
    Edit {
        #[serde(flatten)]
        key: Key,
        patch: Value,
    },
    /// Changes an object like another client, to this version of it.
    Replace {
        object: Value,
    },
    /// Deletes an object like another client.
    Delete(Key),
    /// Removes an object immediately.
    Remove(Key),
    ObserveDeletion(Reference),
    PutRaw {
        path: String,
        answer: Value,
    },
    Serve {
        kind: String,
        plural: String,
        namespaced: bool,
        verbs: Vec<String>,
        /// The names of subresources and their verbs.
        #[serde(default)]
        subresources: Vec<(String, Vec<String>)>,
    },
    FailDiscovery {
        group_version: String,
        message: String,
    },
    Fail {
        verb: String,
        kind: String,
        /// 1 is the next call.
        nth: usize,
        error: Error,
    },
    Answer {
        kind: String,
        answer: Value,
    },
    LimitRate {
        calls: usize,
        window_ms: u64,
    },
    SetConfig {
        key: String,
        value: String,
    },
    SetNow {
        time: Instant,
    },
    Advance {
        ms: u64,
    },
    AddKey {
        name: String,
    },
    AddAuthority {
        signer: String,
    },

    // The test checks what happened.
    Object(Key),
    Objects {
        kind: String,
    },
    Writes,
    LiveReads,
    Events,
    Enqueued,
    Logs,
    Metrics,
    Signed,
    Certificates,

    // Calls of the host by the controller, named after the world's interfaces and functions.
    #[serde(rename = "lister.get")]
    ListerGet {
        #[serde(flatten)]
        key: Key,
        fields: Vec<String>,
    },
    #[serde(rename = "lister.list")]
    ListerList {
        query: Query,
        projection: Projection,
        limit: u32,
    },
    #[serde(rename = "lister.next")]
    ListerNext {
        rest: usize,
        limit: u32,
    },
    #[serde(rename = "lister.count")]
    ListerCount {
        query: Query,
    },
    #[serde(rename = "lister.deletion-observed")]
    ListerDeletionObserved {
        object: Reference,
    },
    #[serde(rename = "reader.run")]
    ReaderRun {
        reads: Vec<Read>,
    },
    #[serde(rename = "discovery.kinds")]
    DiscoveryKinds,
    #[serde(rename = "writer.run")]
    WriterRun {
        writes: Vec<Write>,
        /// 0 for none.
        slow_start: u32,
        stop_on_error: bool,
    },
    #[serde(rename = "events.emit")]
    EventsEmit {
        about: Reference,
        #[serde(rename = "type")]
        event_type: String,
        reason: String,
        message: String,
        /// The options, as in `wit/event-options.schema.json`.
        #[serde(default)]
        options: Option<Value>,
    },
    #[serde(rename = "queue.add")]
    QueueAdd {
        queue: String,
        key: String,
        delay_ms: u32,
    },
    #[serde(rename = "queue.forget")]
    QueueForget {
        queue: String,
        key: String,
    },
    #[serde(rename = "queue.requeues")]
    QueueRequeues {
        queue: String,
        key: String,
    },
    #[serde(rename = "clock.now")]
    ClockNow,
    #[serde(rename = "random.bytes")]
    RandomBytes {
        count: u32,
    },
    #[serde(rename = "log.write")]
    LogWrite {
        /// `trace`, `debug`, `info`, `warn` or `error`.
        level: String,
        message: String,
        fields: Vec<(String, String)>,
    },
    /// The functions of the interface `metrics`.
    #[serde(rename = "metrics.record")]
    MetricsRecord {
        /// `add`, `set` or `observe`.
        operation: String,
        name: String,
        labels: Vec<String>,
        value: f64,
    },
    #[serde(rename = "config.get")]
    ConfigGet {
        key: String,
    },
    #[serde(rename = "memo.get")]
    MemoGet {
        key: String,
    },
    #[serde(rename = "memo.put")]
    MemoPut {
        key: String,
        expected: u32,
        value: Bytes,
        object_uid: String,
        ttl_ms: u32,
    },
    #[serde(rename = "memo.remove")]
    MemoRemove {
        key: String,
    },
    #[serde(rename = "signer.sign-jwt")]
    SignerSignJwt {
        key: String,
        claims: Value,
    },
    #[serde(rename = "signer.verify-jwt")]
    SignerVerifyJwt {
        key: String,
        token: String,
    },
    #[serde(rename = "signer.certificate-authority")]
    SignerCertificateAuthority {
        signer: String,
    },
    #[serde(rename = "signer.sign-certificate")]
    SignerSignCertificate {
        signer: String,
        template: Template,
    },
}
