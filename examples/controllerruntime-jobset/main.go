// The plugin controllerruntime-jobset: the controllers of JobSet, from its Go module, unedited. Its webhooks are left
// out, so a JobSet must state the fields that they would default.
package main

import (
	"context"
	_ "embed"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/plugin"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/constants"
	"sigs.k8s.io/jobset/pkg/controllers"

	"flyball.dev/sdk"
)

// role is JobSet's own config/components/rbac/role.yaml.
//
//go:embed role.yaml
var role []byte

func init() {
	plugin.Export(plugin.Options{
		Name: "controllerruntime-jobset", Version: "0.12.0",
		Scheme: []func(*runtime.Scheme) error{batchv1.AddToScheme, corev1.AddToScheme, jobset.AddToScheme},
		SetUp:  setUp,
		Role:   role,
		Reads:  []client.Object{&corev1.Node{}},
		// The host finds the Jobs by the UIDs of their owners; JobSet's indexer checks the owners' kind.
		Indexes: []flyball.Index{{
			Name: constants.JobsIndexByJobSetKey, Kind: "batch/v1/Job", Path: "metadata.ownerReferences[*].uid",
		}},
	})
}

// setUp does the same with the manager as JobSet's main, except for the webhooks.
func setUp(mgr ctrl.Manager) error {
	ctx := context.Background()
	if err := controllers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := controllers.SetupPodIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	jobSets := controllers.NewJobSetReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("jobset"))
	if err := jobSets.SetupWithManager(mgr); err != nil {
		return err
	}
	pods := controllers.NewPodReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("pod"))
	return pods.SetupWithManager(mgr)
}

func main() {}
