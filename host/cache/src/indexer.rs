//! The objects of one informer, and how they are found.
