//! A kubelet without containers: nodes and pods that behave as annotations say.
