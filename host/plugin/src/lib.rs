//! The plugin runtime: compiles, instantiates, limits and calls guest components.
