//! Shared reflectors and the indexed, masked cache that guests read.
