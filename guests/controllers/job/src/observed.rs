//! The inputs of a reconcile's decisions: the job, its pods and their counts at one time.
//!
//! Upstream: pkg/controller/job/job_controller.go: syncJob.

use flyball_sdk::Time;

use crate::backoff::Record;
use crate::indexes::Indexes;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::views::{Job, Pod};

pub struct Observed<'p> {
    /// The job as it was read, with a start time unless it is suspended.
    pub job: &'p Job,
    /// The pods of the job.
    pub pods: &'p [Pod],
    pub tally: Tally<'p>,
    /// The state of its indexes; `None` unless it is an Indexed Job.
    pub indexes: Option<Indexes<'p>>,
    /// The PodGroup that its next pods name, if it is a gang.
    pub group: Option<&'p str>,
    /// The memo's record of pod failures.
    pub recalled: Record,
    /// The record with the pods that have ended since.
    pub record: Record,
    pub settings: &'p Settings,
    pub now: Time,
}

impl<'p> Observed<'p> {
    pub fn of(
        job: &'p Job,
        pods: &'p [Pod],
        recalled: Record,
        settings: &'p Settings,
        now: Time,
    ) -> Self {
        let tally = Tally::of(job, pods);
        Self {
            job,
            pods,
            indexes: job.is_indexed().then(|| Indexes::of(job, pods)),
            group: None,
            record: recalled.after(&tally.new_succeeded, &tally.new_failed),
            recalled,
            tally,
            settings,
            now,
        }
    }

    /// Number of completions that have succeeded: pods or, for an Indexed Job, indexes.
    pub fn succeeded(&self) -> i64 {
        match &self.indexes {
            Some(indexes) => indexes.succeeded.total(),
            None => self.tally.succeeded,
        }
    }

    /// The record to store; `None` if it is unchanged or not needed. With a backoff limit per
    /// index, the annotations of each index's last failed pod determine its backoff.
    pub fn new_record(&self) -> Option<&Record> {
        let is_needed = self.job.backoff_limit_per_index.is_none();
        Some(&self.record).filter(|record| is_needed && **record != self.recalled)
    }
}
