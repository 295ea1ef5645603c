package plugin

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/internal/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// collector is a manager that collects the controllers.
type collector struct {
	plugin      *Plugin
	mapper      meta.RESTMapper
	cached      *hostClient
	live        *hostClient
	controllers []*controller.Controller[reconcile.Request]
	watches     []watch
	// indexers are by kind and field.
	indexers map[indexKey]client.IndexerFunc
}

// watch is a kind that a controller watches.
type watch struct {
	source.Watched[reconcile.Request]
	kind  string
	queue string
}

type indexKey struct{ kind, field string }

var _ manager.Manager = (*collector)(nil)

func newCollector(plugin *Plugin) *collector {
	all := &collector{plugin: plugin, mapper: newMapper(plugin), indexers: map[indexKey]client.IndexerFunc{}}
	all.cached = &hostClient{all, true}
	all.live = &hostClient{all, false}
	return all
}

func (all *collector) Add(runnable manager.Runnable) error {
	added, isController := runnable.(*controller.Controller[reconcile.Request])
	if !isController {
		return fmt.Errorf("a plugin can't run %T: it has only controllers of reconcile.Request", runnable)
	}
	if _, err := all.controller(added.Name()); err == nil {
		return fmt.Errorf("the plugin has two controllers %q: name one of them by the builder's function Named", added.Name())
	}
	all.controllers = append(all.controllers, added)
	return nil
}

// collectWatches collects the watches of the controllers. Builders add the sources after the controller.
func (all *collector) collectWatches() error {
	all.watches = nil
	for _, controller := range all.controllers {
		for _, of := range controller.Sources {
			watched, isWatched := of.(source.Watched[reconcile.Request])
			if !isWatched {
				return fmt.Errorf("controller %s has the source %T: a plugin can watch only kinds (source.Kind)", controller.Name(), of)
			}
			kind, err := all.kindOf(watched.Object())
			if err != nil {
				return fmt.Errorf("controller %s watches an unknown kind: %w", controller.Name(), err)
			}
			all.watches = append(all.watches, watch{watched, kind.text, controller.Name()})
		}
	}
	return nil
}

func (all *collector) controller(name string) (*controller.Controller[reconcile.Request], error) {
	for _, controller := range all.controllers {
		if controller.Name() == name {
			return controller, nil
		}
	}
	return nil, fmt.Errorf("the plugin has no controller %q", name)
}

func (all *collector) GetClient() client.Client             { return all.cached }
func (all *collector) GetAPIReader() client.Reader          { return all.live }
func (all *collector) GetCache() cache.Cache                { return all }
func (all *collector) GetFieldIndexer() client.FieldIndexer { return all }
func (all *collector) GetScheme() *runtime.Scheme           { return all.plugin.scheme }
func (all *collector) GetRESTMapper() meta.RESTMapper       { return all.mapper }
func (all *collector) GetLogger() logr.Logger               { return all.plugin.logger }

func (all *collector) GetControllerOptions() config.Controller {
	// Names are unique in a manager, and tests have many managers in one process.
	return config.Controller{Logger: all.plugin.logger, SkipNameValidation: ptr.To(true)}
}

func (all *collector) GetEventRecorderFor(string) record.EventRecorder { return coreRecorder{all} }

func (all *collector) GetEventRecorder(name string) recorder.EventRecorder {
	return eventsRecorder{all, name}
}

func (all *collector) Elected() <-chan struct{} {
	elected := make(chan struct{})
	close(elected)
	return elected
}

func (all *collector) Start(context.Context) error {
	return fmt.Errorf("the host runs the controllers of %s: a plugin can't start its manager", all.plugin.options.Name)
}

// The cache.

func (all *collector) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return all.cached.Get(ctx, key, object, options...)
}

func (all *collector) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return all.cached.List(ctx, list, options...)
}

func (all *collector) WaitForCacheSync(context.Context) bool { return true }

func (all *collector) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	kind, err := all.kindOf(object)
	if err != nil {
		return fmt.Errorf("can't index field %s: %w", field, err)
	}
	key := indexKey{kind.text, field}
	if _, isTaken := all.indexers[key]; isTaken {
		return fmt.Errorf("%s has two indexers of field %s", kind.text, field)
	}
	all.indexers[key] = values
	return nil
}
