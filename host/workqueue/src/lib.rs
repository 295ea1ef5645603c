//! The workqueue: which key is reconciled when, and never by two workers at once.
