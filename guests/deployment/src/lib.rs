//! deployment-controller: rolls ReplicaSets to a new pod template.
