//! A Kubernetes control plane on loopback, for tests, the demo and benchmarks.
