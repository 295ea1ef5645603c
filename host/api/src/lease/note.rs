//! A text that the holder of a lease keeps in it, in an annotation: state that must go on with the next holder. It needs
//! no right besides those on the lease, and only the holder writes it.
//!
//! A holder's new text is in force when the server has acknowledged it. Each process reads the text whenever it reads the
//! lease, so that one that becomes the holder has read the last text before it leads.

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// The annotation.
const ANNOTATION: &str = "flyball.dev/canaries";

/// Called with a text that was read; none if the lease has none.
type OnRead = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// A text in a lease.
pub struct LeaseNote {
    on_read: OnRead,
    state: Mutex<State>,
    /// Notified when a text must be written at once.
    written: Notify,
}

#[derive(Default)]
struct State {
    /// The text that this process wants, if it has written one: none removes the annotation.
    wanted: Option<Option<String>>,
    /// The text that was read last; none before the first.
    read: Option<Option<String>>,
}

impl LeaseNote {
    /// `on_read` is called with each text of the lease that differs from the one before, and must return soon.
    pub fn new(on_read: impl Fn(Option<&str>) + Send + Sync + 'static) -> Self {
        Self {
            on_read: Box::new(on_read),
            state: Mutex::default(),
            written: Notify::new(),
        }
    }

    /// Writes a text, or removes it, at the next renewal; at once if it `is_urgent`. Only the holder may write.
    pub fn write(&self, text: Option<String>, is_urgent: bool) {
        self.state.lock().wanted = Some(text);
        if is_urgent {
            self.written.notify_one();
        }
    }

    /// Puts the wanted text into a lease that will be sent.
    pub(super) fn put(&self, lease: &mut Value) {
        let Some(wanted) = self.state.lock().wanted.clone() else {
            return;
        };
        let annotations = &mut lease["metadata"]["annotations"];
        match (wanted, annotations.as_object_mut()) {
            (Some(text), Some(all)) => drop(all.insert(ANNOTATION.into(), text.into())),
            (Some(text), None) => {
                let all = Map::from_iter([(ANNOTATION.to_owned(), text.into())]);
                *annotations = all.into();
            }
            (None, Some(all)) => drop(all.remove(ANNOTATION)),
            (None, None) => {}
        }
    }

    /// Reads the text of a lease that the server has sent.
    pub(super) fn read(&self, lease: &Value) {
        let text = lease["metadata"]["annotations"][ANNOTATION].as_str();
        {
            let mut state = self.state.lock();
            let is_known = |read: &Option<String>| read.as_deref() == text;
            if state.read.as_ref().is_some_and(is_known) {
                return;
            }
            state.read = Some(text.map(str::to_owned));
        }
        (self.on_read)(text);
    }
}

/// Waits until a text must be written at once; forever without a note.
pub(super) async fn written(note: Option<&LeaseNote>) {
    match note {
        Some(note) => note.written.notified().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_put_beside_other_annotations_and_each_new_one_is_reported_once() {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let seen = texts.clone();
        let note = LeaseNote::new(move |text| seen.lock().push(text.map(str::to_owned)));
        let mut lease = json!({"metadata": {"annotations": {"other": "stays"}}});
        note.read(&lease);
        note.put(&mut lease);
        assert_eq!(lease["metadata"]["annotations"], json!({"other": "stays"}));
        note.write(Some("first".into()), false);
        note.put(&mut lease);
        note.read(&lease);
        note.read(&lease);
        assert_eq!(
            lease["metadata"]["annotations"],
            json!({"other": "stays", ANNOTATION: "first"})
        );
        note.write(None, false);
        note.put(&mut lease);
        note.read(&lease);
        assert_eq!(lease["metadata"]["annotations"], json!({"other": "stays"}));
        assert_eq!(*texts.lock(), [None, Some("first".to_owned()), None]);
        let mut bare = json!({"metadata": {}});
        note.put(&mut bare);
        assert_eq!(bare["metadata"]["annotations"], Value::Null);
    }
}
