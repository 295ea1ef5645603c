//! serviceaccount-controller: a default account in each namespace.
