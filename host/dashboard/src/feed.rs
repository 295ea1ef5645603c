//! Asks the source, once for all clients that look at the same thing.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::changes::{self, Table};
use crate::source::{Problem, Query, Source};

/// Answers that nobody has asked for since this time are forgotten.
const FORGET: Duration = Duration::from_secs(60);

/// The most answers that are kept. A further one ends the oldest.
const MOST: usize = 256;

/// An answer that may still be on its way. Whoever waits for it drives it.
pub(crate) type Answer = Shared<BoxFuture<'static, Arc<Document>>>;
/// A document, or why there is none.
pub(crate) type Document = Result<Value, Problem>;

/// The source with the last answers.
pub(crate) struct Feed {
    source: Arc<dyn Source>,
    /// The oldest first.
    asked: Mutex<Vec<Asked>>,
    /// The last table, and the answer that it was made of.
    table: Mutex<Option<(Arc<Document>, Arc<Table>)>>,
}

struct Asked {
    query: Query,
    at: Instant,
    answer: Answer,
}

impl Feed {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            asked: Mutex::default(),
            table: Mutex::default(),
        }
    }

    /// Returns the rows of an answer about the plugins. They are made once for all clients.
    pub(crate) fn table(&self, plugins: &Arc<Document>) -> Arc<Table> {
        let mut last = self.table.lock();
        if let Some((of, table)) = &*last
            && Arc::ptr_eq(of, plugins)
        {
            return table.clone();
        }
        let rows = plugins.as_ref().as_ref().unwrap_or(&Value::Null);
        let before = last.as_ref().map(|(_, table)| &**table);
        let table = Arc::new(changes::table(rows, before));
        *last = Some((plugins.clone(), table.clone()));
        table
    }

    pub(crate) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Returns an answer that is no older than `age`.
    pub(crate) fn ask(&self, query: &Query, age: Duration) -> Answer {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        asked.retain(|asked| now - asked.at < FORGET);
        if let Some(known) = asked.iter().position(|asked| asked.query == *query) {
            if now - asked[known].at < age {
                return asked[known].answer.clone();
            }
            asked.remove(known);
        }
        if asked.len() == MOST {
            asked.remove(0);
        }
        let (source, owned) = (self.source.clone(), query.clone());
        let answer = async move { Arc::new(source.document(&owned).await) };
        let answer = answer.boxed().shared();
        asked.push(Asked {
            query: query.clone(),
            at: now,
            answer: answer.clone(),
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use serde_json::json;

    use super::*;
    use crate::source::Followed;

    /// Counts the queries.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Source for Counting {
        fn document<'a>(&'a self, _: &'a Query) -> BoxFuture<'a, Result<Value, Problem>> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(json!(self.0.fetch_add(1, SeqCst)))
            })
        }

        fn follow<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Followed, Problem>> {
            Box::pin(async { Err(Problem::Refused("it has no log".to_owned())) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_ask_the_same_share_one_answer_until_it_is_too_old() {
        let source = Arc::new(Counting::default());
        let feed = Feed::new(source.clone());
        let second = Duration::from_secs(1);
        let ask = |query: Query| feed.ask(&query, second);
        let (a, b) = tokio::join!(ask(Query::Plugins), ask(Query::Plugins));
        assert_eq!((&*a, &*b), (&Ok(json!(0)), &Ok(json!(0))));
        let other = ask(Query::Plugin("a".to_owned())).await;
        assert_eq!(*other, Ok(json!(1)));
        tokio::time::advance(second).await;
        assert_eq!(*ask(Query::Plugins).await, Ok(json!(2)));
        tokio::time::advance(FORGET).await;
        ask(Query::Host).await;
        assert_eq!(feed.asked.lock().len(), 1, "the others are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_answers_is_bounded() {
        let feed = Feed::new(Arc::new(Counting::default()));
        for number in 0..2 * MOST {
            feed.ask(&Query::Object(number.to_string()), FORGET).await;
        }
        assert_eq!(feed.asked.lock().len(), MOST);
        let last = Query::Object((2 * MOST - 1).to_string());
        let answer = feed.ask(&last, FORGET).await;
        assert_eq!(*answer, Ok(json!(2 * MOST - 1)), "it is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_does_not_take_the_answer_of_another_along() {
        let feed = Feed::new(Arc::new(Counting::default()));
        let second = Duration::from_secs(1);
        let leaving = feed.ask(&Query::Plugins, second);
        let left = tokio::time::timeout(Duration::from_millis(1), leaving).await;
        assert!(left.is_err());
        let answer = feed.ask(&Query::Plugins, second).await;
        assert_eq!(*answer, Ok(json!(0)));
    }
}
