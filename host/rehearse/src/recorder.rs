//! The recorder of one plugin, over all of its versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_plugin::Imports;
use flyball_recording::{Call, Ended, Input, Kept, file};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ended;
use crate::listeners::{Listener, Sender, Wanted, listen};
use crate::notes::{InFlight, Notes};
use crate::recorded::Recorded;
use crate::ring::Ring;

/// A call that took at least this long is slow.
const SLOW: Duration = Duration::from_secs(1);
/// What all running calls may have together while somebody listens, in bytes.
const LISTENED: usize = 64 << 20;
/// Calls with fewer bytes are written down at once. Others are on a thread that may block.
const SMALL: usize = 64 << 10;

/// Records the calls of one plugin.
pub struct Recorder {
    ring: Mutex<Ring>,
    in_flight: Arc<InFlight>,
    listeners: Mutex<Vec<Sender>>,
    /// Whether calls are noted.
    is_on: AtomicBool,
    /// The limit of the ring and, while nobody listens, of running calls, in bytes.
    limit: Mutex<usize>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// A call that is about to be made.
pub struct Session {
    recorder: Arc<Recorder>,
    imports: Arc<dyn Imports>,
    /// None if the call is not noted.
    notes: Option<Arc<Notes>>,
    began: SystemTime,
    started: Instant,
}

impl Recorder {
    /// `limit` is the memory in bytes that kept calls may have, and once more that running calls may have; 0 for no
    /// recording unless somebody listens.
    pub fn new(limit: usize) -> Arc<Self> {
        let recorder = Self {
            ring: Mutex::new(Ring::new(limit)),
            in_flight: Arc::default(),
            listeners: Mutex::default(),
            is_on: AtomicBool::new(false),
            limit: Mutex::new(limit),
        };
        recorder.adjust(&[]);
        Arc::new(recorder)
    }

    /// Changes the limit: that of the next version may be another one.
    pub fn set_limit(&self, limit: usize) {
        *self.limit.lock() = limit;
        self.ring.lock().set_limit(limit);
        self.adjust(&self.listeners.lock());
    }

    /// Bytes that the recorder holds.
    pub fn bytes(&self) -> usize {
        self.ring.lock().bytes() + self.in_flight.used()
    }

    /// Returns the last failed, trapped and slow calls, the oldest first. Each is a line of a recording with its end, and
    /// with the data of Secrets.
    pub fn kept(&self) -> Vec<Bytes> {
        self.ring.lock().all()
    }

    /// Returns a listener for the calls that end from now on.
    pub fn listen(&self, wanted: Wanted) -> Listener {
        let (sender, listener) = listen(wanted);
        let mut listeners = self.listeners.lock();
        listeners.push(sender);
        self.adjust(&listeners);
        listener
    }

    fn adjust(&self, listeners: &[Sender]) {
        let limit = *self.limit.lock();
        let in_flight = match listeners {
            [] => limit,
            _ => limit.max(LISTENED),
        };
        self.in_flight.set_limit(in_flight);
        self.is_on.store(in_flight > 0, Relaxed);
    }

    /// Begins a call with these imports.
    pub fn begin(self: &Arc<Self>, imports: Arc<dyn Imports>) -> Session {
        let notes = self
            .is_on
            .load(Relaxed)
            .then(|| Arc::new(Notes::new(self.in_flight.clone())));
        let imports = match &notes {
            Some(notes) => Recorded::new(imports, notes.clone()),
            None => imports,
        };
        Session {
            recorder: self.clone(),
            imports,
            notes,
            began: SystemTime::now(),
            started: Instant::now(),
        }
    }

    /// Whether a listener wants a call. Forgets listeners that are gone.
    fn is_wanted(&self, key: Option<&str>, kept: Option<Kept>) -> bool {
        let mut listeners = self.listeners.lock();
        if listeners.is_empty() {
            return false;
        }
        let count = listeners.len();
        listeners.retain(Sender::is_open);
        if listeners.len() < count {
            self.adjust(&listeners);
        }
        listeners.iter().any(|listener| listener.wants(key, kept))
    }
}

impl Session {
    /// The imports to call the guest with.
    pub fn imports(&self) -> Arc<dyn Imports> {
        self.imports.clone()
    }

    /// Counts bytes of what the guest is called with, and returns whether the caller may keep them until the end. A call
    /// that may not is not recorded.
    pub fn hold(&self, bytes: usize) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.hold(bytes))
    }

    /// Ends the call. It is dropped, unless it ended badly, took long, or somebody wants it. `input` is what the guest was
    /// called with, `digest` that of the plugin's file, and `key` the key that was reconciled. `ended` is none if the host
    /// ended the call.
    pub async fn end(
        self,
        digest: &str,
        key: Option<&str>,
        ended: Option<Ended>,
        input: impl FnOnce() -> Input,
    ) {
        let Self {
            recorder,
            imports: _,
            notes: Some(notes),
            began,
            started,
        } = self
        else {
            return;
        };
        let Some(ended) = ended else { return };
        let took = started.elapsed();
        let kept = ended::reason(&ended).or((took >= SLOW).then_some(Kept::Slow));
        let is_wanted = recorder.is_wanted(key, kept);
        if kept.is_none() && !is_wanted {
            return;
        }
        let size = notes.size();
        let in_ring = match (kept, size) {
            (Some(kept), Some(size)) => recorder.ring.lock().admits(kept, size, Instant::now()),
            _ => false,
        };
        if !in_ring && !is_wanted {
            return;
        }
        let (digest, input, key) = (digest.to_owned(), input(), key.map(str::to_owned));
        let write = move || {
            let call = Call {
                call: input,
                digest,
                began: rfc3339(began),
                took_ms: (took.as_secs_f64() * 1e5).round() / 1e2,
                kept: kept.unwrap_or(Kept::Asked),
                hidden: 0,
                steps: notes.take_steps(),
                ended,
            };
            let line = size.and_then(|_| file::call_line(&call)).map(Bytes::from);
            recorder.keep(line, key.as_deref(), kept, in_ring);
        };
        if size.is_none_or(|size| size < SMALL) {
            write();
        } else {
            // A panic would be a fault of the host, and has been logged.
            let _ = tokio::task::spawn_blocking(write).await;
        }
    }
}

impl Recorder {
    fn keep(&self, line: Option<Bytes>, key: Option<&str>, kept: Option<Kept>, in_ring: bool) {
        let listeners = self.listeners.lock();
        for listener in listeners
            .iter()
            .filter(|listener| listener.wants(key, kept))
        {
            match &line {
                Some(line) => listener.send(line),
                None => listener.drop_one(),
            }
        }
        drop(listeners);
        if let (true, Some(kept), Some(line)) = (in_ring, kept, line) {
            self.ring.lock().add(kept, line);
        }
    }
}

/// A time in RFC 3339, to the microsecond.
fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at)
        .map(|at| format!("{at:.6}"))
        .unwrap_or_default()
}
