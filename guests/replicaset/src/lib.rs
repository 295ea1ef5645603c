//! replicaset-controller: as many pods as a ReplicaSet asks for.
