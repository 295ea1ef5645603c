// Package webhook has the names that controller-runtime gives to the types of its package admission.
package webhook

import "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

type (
	CustomDefaulter   = admission.CustomDefaulter
	CustomValidator   = admission.CustomValidator
	AdmissionRequest  = admission.Request
	AdmissionResponse = admission.Response
	Admission         = admission.Webhook
	AdmissionHandler  = admission.Handler
)

var (
	Allowed = admission.Allowed
	Denied  = admission.Denied
	Errored = admission.Errored
)
