package plugin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"flyball.dev/sdk"
)

var (
	_ record.EventRecorder          = coreRecorder{}
	_ events.EventRecorder          = eventsRecorder{}
	_ events.AnnotatedEventRecorder = eventsRecorder{}
)

// coreRecorder emits core/v1 events by the host, which names the plugin as their source.
type coreRecorder struct{ all *collector }

func (recorder coreRecorder) Event(object runtime.Object, eventType, reason, message string) {
	recorder.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

func (recorder coreRecorder) Eventf(object runtime.Object, eventType, reason, format string, arguments ...any) {
	recorder.AnnotatedEventf(object, nil, eventType, reason, format, arguments...)
}

func (recorder coreRecorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, eventType, reason, format string, arguments ...any,
) {
	recorder.all.emit(object, nil, flyball.Event{
		Type: flyball.EventType(eventType), Reason: reason, Message: fmt.Sprintf(format, arguments...), Annotations: annotations,
	})
}

// eventsRecorder emits events.k8s.io/v1 events by the host.
type eventsRecorder struct {
	all *collector
	// controller is the reporting controller of the events.
	controller string
}

func (recorder eventsRecorder) Eventf(
	regarding, related runtime.Object, eventType, reason, action, note string, arguments ...any,
) {
	recorder.AnnotatedEventf(regarding, related, nil, eventType, reason, action, note, arguments...)
}

func (recorder eventsRecorder) AnnotatedEventf(
	regarding, related runtime.Object, annotations map[string]string, eventType, reason, action, note string, arguments ...any,
) {
	recorder.all.emit(regarding, related, flyball.Event{
		Type: flyball.EventType(eventType), Reason: reason, Action: action, Message: fmt.Sprintf(note, arguments...),
		Annotations: annotations, ReportingController: recorder.controller,
	})
}

// emit emits an event about an object. A related object that can't be named is left out, as client-go does.
func (all *collector) emit(about, related runtime.Object, event flyball.Event) {
	reference, err := all.reference(about)
	if err != nil {
		all.plugin.logger.Error(err, "can't emit an event", "reason", event.Reason)
		return
	}
	event.About = reference
	if related != nil {
		if reference, err := all.reference(related); err == nil {
			event.Related = &reference
		}
	}
	all.plugin.host.Emit(event)
}

// reference names an object in an event.
func (all *collector) reference(object runtime.Object) (flyball.Reference, error) {
	kind, err := all.kindOf(object)
	if err != nil {
		return flyball.Reference{}, fmt.Errorf("the kind of the object is unknown: %w", err)
	}
	named, err := meta.Accessor(object)
	if err != nil {
		return flyball.Reference{}, fmt.Errorf("%T is no object: %w", object, err)
	}
	return flyball.Reference{
		Kind: kind.text, Namespace: named.GetNamespace(), Name: named.GetName(), UID: string(named.GetUID()),
		ResourceVersion: named.GetResourceVersion(),
	}, nil
}
