module sigs.k8s.io/controller-runtime

go 1.26.0

replace (
	flyball.dev/sdk => ../
	k8s.io/client-go => ./clientgo
)

require (
	flyball.dev/sdk v0.0.0-00010101000000-000000000000
	github.com/evanphx/json-patch/v5 v5.9.11
	github.com/go-logr/logr v1.4.3
	github.com/prometheus/client_golang v1.24.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
	k8s.io/klog/v2 v2.140.0
	k8s.io/utils v0.0.0-20260626114624-be93311217bd
)
