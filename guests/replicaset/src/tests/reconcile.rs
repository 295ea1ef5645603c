//! Whole reconciles.
