//! A ConfigMap kept in step with an annotated Namespace.
