//! Native tests of the whole controller.

mod bound;
mod delayed;
mod deleted;
mod described;
mod external;
mod fit;
mod interrupted;
mod lost;
mod measured;
mod migrated;
mod model;
mod prebound;
mod provisioned;
mod recycled;
mod released;
mod resynced;
mod routed;
mod searched;
mod world;
