//! The manager: wires reflectors, router, workqueues, guests and the writer together.
