// Package events has the recorder of events of the group events.k8s.io. Its implementation is the host's.
package events

import internalevents "k8s.io/client-go/tools/internal/events"

type (
	EventRecorder          = internalevents.EventRecorder
	EventRecorderLogger    = internalevents.EventRecorderLogger
	AnnotatedEventRecorder = internalevents.AnnotatedEventRecorder
)
