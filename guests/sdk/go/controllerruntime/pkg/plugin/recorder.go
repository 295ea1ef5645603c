package plugin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/sdk"
)

// recorder emits events by the host, which names the plugin as their source.
type recorder struct{ all *collector }

func (recorder recorder) Event(object runtime.Object, eventType, reason, message string) {
	recorder.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

func (recorder recorder) Eventf(object runtime.Object, eventType, reason, format string, arguments ...any) {
	recorder.AnnotatedEventf(object, nil, eventType, reason, format, arguments...)
}

func (recorder recorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, eventType, reason, format string, arguments ...any,
) {
	kind, err := recorder.all.kindOf(object)
	if err != nil {
		recorder.all.plugin.logger.Error(err, "can't emit an event about an object of an unknown kind", "reason", reason)
		return
	}
	about, err := meta.Accessor(object)
	if err != nil {
		recorder.all.plugin.logger.Error(err, "can't emit an event about what is no object", "reason", reason)
		return
	}
	recorder.all.plugin.host.Emit(flyball.Event{
		About: flyball.Reference{
			Kind: kind.text, Namespace: about.GetNamespace(), Name: about.GetName(), UID: string(about.GetUID()),
			ResourceVersion: about.GetResourceVersion(),
		},
		Type: flyball.EventType(eventType), Reason: reason, Message: fmt.Sprintf(format, arguments...), Annotations: annotations,
	})
}
