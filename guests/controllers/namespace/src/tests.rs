//! Whole reconciles against an in-memory API server, and tests of single rules.

mod conditions;
mod content;
mod describe;
mod discovery;
mod finalize;
mod pods;
mod route;
mod world;
