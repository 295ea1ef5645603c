//! Shared by endpoints-controller, endpointslice-controller and endpointslice-mirroring-controller.
//!
//! - [`service`] and [`pod`] are the views from which both Endpoints and EndpointSlices are computed; [`pod`] also
//!   finds the pods of a Service. [`ports`] finds their ports, [`ip`] parses their addresses.
//! - [`trigger`] computes the time of the change that a write publishes.
//! - [`slice`] has EndpointSlices and [`write`] their writes; [`subsets`] has the content of Endpoints.
//! - [`size`] has the gauges of all slices.
//! - [`settings`] reads the configuration.

pub mod ip;
pub mod pod;
pub mod ports;
pub mod service;
pub mod settings;
pub mod size;
pub mod slice;
pub mod subsets;
pub mod trigger;
pub mod write;
