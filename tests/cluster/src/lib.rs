//! Whole behaviours against a real API server.
