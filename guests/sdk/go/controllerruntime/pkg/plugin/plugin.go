// Package plugin makes a plugin of reconcilers that are written for controller-runtime.
//
//	func init() {
//		plugin.Export(plugin.Options{
//			Name: "web", Version: "1.0.0",
//			Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme, webv1.AddToScheme},
//			SetUp:  func(mgr ctrl.Manager) error { return (&WebReconciler{mgr.GetClient()}).SetupWithManager(mgr) },
//			Role:   role, // config/rbac/role.yaml, embedded
//		})
//	}
//
//	func main() {}
//
// In the flow: SetUp builds the controllers on a manager that only collects them (manager.go), Describe declares their
// watches (describe.go), and the host's calls reach their reconcilers and handlers (reconcile.go, route.go). The host
// answers the calls of their client (reads.go, writes.go, subresource.go).
package plugin

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options are the parts of a plugin.
type Options struct {
	Name, Version string
	// Scheme adds the types of the objects that are read and written.
	Scheme []func(*runtime.Scheme) error
	// SetUp adds the controllers, as a main function does between creating its manager and starting it.
	SetUp func(manager.Manager) error
	// Role is the YAML of roles that the plugin asks for, as controller-gen writes it into config/rbac/role.yaml.
	Role []byte
	// Permissions are further permissions to ask for.
	Permissions []flyball.Permission
	// Reads are empty objects of kinds that are read from the cache and not watched by a controller. A kind that is
	// neither listed nor watched is read from the API server at each read.
	Reads []client.Object
	// Fields are the paths that are read of a kind such as `v1/Pod`; all fields if it has no entry.
	Fields map[string][]string
	// Indexes are paths by which the host finds objects that a field indexer finds. Without such a path, a list by that
	// field reads all objects of its namespace.
	Indexes []flyball.Index
	// ClusterScoped are empty objects of custom kinds that have no namespace.
	ClusterScoped []client.Object
}

// Plugin is a [flyball.Controller] that runs the controllers.
type Plugin struct {
	options Options
	// host is the host of the current call.
	host    *flyball.Host
	logger  logr.Logger
	scheme  *runtime.Scheme
	manager *collector
	// requeued counts how often a request asked to be called again at once. A new instance has no counts, and only asks
	// sooner.
	requeued map[flyball.Request]int
}

// New returns the plugin. Tests pass it to flyballtest.
func New(options Options) *Plugin {
	return &Plugin{options: options, requeued: map[flyball.Request]int{}}
}

// Export makes the controllers the plugin's. Call it in an init function of the main package.
func Export(options Options) { flyball.Export(New(options)) }

// enter prepares a call: it sets the controllers up in the first one.
func (plugin *Plugin) enter(host *flyball.Host) error {
	plugin.host = host
	if plugin.manager != nil {
		return nil
	}
	plugin.logger = logr.FromSlogHandler(host.Log().Handler())
	log.SetLogger(plugin.logger)
	klog.SetLogger(plugin.logger)
	plugin.scheme = runtime.NewScheme()
	for _, add := range plugin.options.Scheme {
		if err := add(plugin.scheme); err != nil {
			return fmt.Errorf("can't add types to the scheme: %w", err)
		}
	}
	collected := newCollector(plugin)
	if err := plugin.options.SetUp(collected); err != nil {
		return fmt.Errorf("can't set up the controllers of %s: %w", plugin.options.Name, err)
	}
	if err := collected.collectWatches(); err != nil {
		return err
	}
	plugin.manager = collected
	return nil
}
