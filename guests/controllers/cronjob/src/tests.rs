//! Tests of the controller against a fake cluster, and of the schedules against a table of the library's results.

mod describe;
mod due;
mod history;
mod policies;
mod races;
mod route;
mod schedules;
mod starts;
mod status;
mod world;
mod zones;
