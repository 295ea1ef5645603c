// Package manager has the manager that reconcilers are set up with.
package manager

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// Manager gives controllers access to the host. The package plugin creates it.
//
// A plugin has no configuration of a client, no HTTP and no health checks: controller-runtime's functions for them are
// absent, so that their use does not compile.
type Manager interface {
	// Add adds a controller. It fails with other runnables, because a plugin runs only when the host calls it.
	Add(Runnable) error
	// GetClient returns the client that reads from the host's cache and writes to the API server.
	GetClient() client.Client
	// GetAPIReader returns the client that reads from the API server.
	GetAPIReader() client.Reader
	GetCache() cache.Cache
	GetScheme() *runtime.Scheme
	GetRESTMapper() meta.RESTMapper
	GetFieldIndexer() client.FieldIndexer
	// GetEventRecorderFor returns the recorder of core/v1 events.
	//
	// Deprecated: use GetEventRecorder, as controller-runtime advises.
	GetEventRecorderFor(name string) record.EventRecorder
	// GetEventRecorder returns the recorder of events.k8s.io/v1 events, with this name as their reporting controller.
	GetEventRecorder(name string) recorder.EventRecorder
	GetLogger() logr.Logger
	GetControllerOptions() config.Controller
	// Elected returns a closed channel: the host calls a plugin only while it leads.
	Elected() <-chan struct{}
	// Start fails: the host runs the controllers.
	Start(ctx context.Context) error
}

// Runnable is run by a manager.
type Runnable interface {
	Start(context.Context) error
}

// RunnableFunc is a runnable that is a function.
type RunnableFunc func(context.Context) error

// Start runs the function.
func (run RunnableFunc) Start(ctx context.Context) error { return run(ctx) }
