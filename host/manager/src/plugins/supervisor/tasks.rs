//! Background tasks that each work for one key, such as the task that loads a file. A new task for a key replaces the
//! previous one. Results of the previous task may already be queued, so each task marks its results with its [`Ticket`],
//! and only the results of the newest task are used.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use tokio_util::task::AbortOnDropHandle;

/// Identifies a task among all tasks of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The running tasks, at most one for each key.
pub(super) struct Tasks<K> {
    running: BTreeMap<K, Task>,
    last_ticket: u64,
}

struct Task {
    ticket: Ticket,
    _task: AbortOnDropHandle<()>,
}

impl<K> Default for Tasks<K> {
    fn default() -> Self {
        Self {
            running: BTreeMap::new(),
            last_ticket: 0,
        }
    }
}

impl<K: Ord> Tasks<K> {
    /// Starts a task for a key, and aborts the previous one.
    pub(super) fn start<F>(&mut self, key: K, task: impl FnOnce(Ticket) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let _task = AbortOnDropHandle::new(tokio::spawn(task(ticket)));
        self.running.insert(key, Task { ticket, _task });
    }

    /// Whether results with this ticket come from the newest task of the key.
    pub(super) fn is_current<Q: Ord + ?Sized>(&self, key: &Q, ticket: Ticket) -> bool
    where
        K: Borrow<Q>,
    {
        let task = self.running.get(key);
        task.is_some_and(|task| task.ticket == ticket)
    }

    /// Aborts the task of a key, if there is one. Its results are no longer used.
    pub(super) fn abort<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.running.remove(key);
    }

    pub(super) fn abort_all(&mut self) {
        self.running.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn only_results_of_the_newest_task_of_a_key_are_used() {
        let mut tasks: Tasks<String> = Tasks::default();
        let last = Cell::new(None);
        let start = |tasks: &mut Tasks<String>, key: &str| {
            tasks.start(key.to_owned(), |ticket| {
                last.set(Some(ticket));
                std::future::pending()
            });
            last.get().expect("the task's ticket")
        };
        let first = start(&mut tasks, "a");
        let other = start(&mut tasks, "b");
        assert!(tasks.is_current("a", first) && !tasks.is_current("b", first));
        let second = start(&mut tasks, "a");
        assert!(!tasks.is_current("a", first) && tasks.is_current("a", second));
        tasks.abort("a");
        assert!(!tasks.is_current("a", second) && tasks.is_current("b", other));
        let third = start(&mut tasks, "a");
        assert!(!tasks.is_current("a", second) && tasks.is_current("a", third));
        tasks.abort_all();
        assert!(!tasks.is_current("a", third) && !tasks.is_current("b", other));
    }

    #[tokio::test]
    async fn a_task_ends_when_it_is_aborted_or_replaced() {
        let mut tasks: Tasks<&str> = Tasks::default();
        let start = |tasks: &mut Tasks<&'static str>| {
            let (running, ended) = tokio::sync::oneshot::channel::<()>();
            tasks.start("a", |_| async move {
                let _running = running;
                std::future::pending().await
            });
            ended
        };
        let first = start(&mut tasks);
        let second = start(&mut tasks);
        // Fails once the task has dropped the sender.
        assert!(first.await.is_err());
        tasks.abort("a");
        assert!(second.await.is_err());
    }
}
