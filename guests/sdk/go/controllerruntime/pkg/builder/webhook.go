package builder

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/controller-runtime/pkg/internal/admission"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// WebhookBuilder lets a package compile that sets up webhooks beside its controllers. A plugin has no webhooks, so
// [WebhookBuilder.Complete] fails, and the other functions do nothing.
type WebhookBuilder[T runtime.Object] struct{ object T }

// WebhookManagedBy returns a builder of webhooks for a type.
func WebhookManagedBy[T runtime.Object](_ manager.Manager, object T) *WebhookBuilder[T] {
	return &WebhookBuilder[T]{object}
}

func (builder *WebhookBuilder[T]) WithDefaulter(admission.Defaulter[T], ...admission.DefaulterOption) *WebhookBuilder[T] {
	return builder
}

func (builder *WebhookBuilder[T]) WithCustomDefaulter(admission.CustomDefaulter, ...admission.DefaulterOption) *WebhookBuilder[T] {
	return builder
}

func (builder *WebhookBuilder[T]) WithValidator(admission.Validator[T]) *WebhookBuilder[T] {
	return builder
}

func (builder *WebhookBuilder[T]) WithCustomValidator(admission.CustomValidator) *WebhookBuilder[T] {
	return builder
}

func (builder *WebhookBuilder[T]) WithValidatorCustomPath(string) *WebhookBuilder[T] { return builder }

func (builder *WebhookBuilder[T]) WithDefaulterCustomPath(string) *WebhookBuilder[T] { return builder }

func (builder *WebhookBuilder[T]) RecoverPanic(bool) *WebhookBuilder[T] { return builder }

// Complete fails.
func (builder *WebhookBuilder[T]) Complete() error {
	return fmt.Errorf("can't set up webhooks of %T: a plugin has none; leave the call out of the plugin's SetUp, "+
		"and serve the webhooks from a process of your own", builder.object)
}
