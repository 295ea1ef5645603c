package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The copied files need these types. In controller-runtime, they are in the files with its clients, which are not
// copied.

type applyConfiguration interface {
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

// SubResourceGetOptions is the options of a get of a subresource.
type SubResourceGetOptions struct{ Raw *metav1.GetOptions }

// ApplyToSubResourceGet copies the options that are set.
func (options *SubResourceGetOptions) ApplyToSubResourceGet(to *SubResourceGetOptions) {
	if options.Raw != nil {
		to.Raw = options.Raw
	}
}

// SubResourceUpdateOptions is the options of an update of a subresource.
type SubResourceUpdateOptions struct {
	UpdateOptions
	// SubResourceBody is the subresource; nil if it is a part of the object.
	SubResourceBody Object
}

// ApplyToSubResourceUpdate copies the options that are set.
func (options *SubResourceUpdateOptions) ApplyToSubResourceUpdate(to *SubResourceUpdateOptions) {
	options.ApplyToUpdate(&to.UpdateOptions)
	if options.SubResourceBody != nil {
		to.SubResourceBody = options.SubResourceBody
	}
}

// ApplyOptions applies options to these.
func (options *SubResourceUpdateOptions) ApplyOptions(of []SubResourceUpdateOption) *SubResourceUpdateOptions {
	for _, option := range of {
		option.ApplyToSubResourceUpdate(options)
	}
	return options
}

// SubResourceCreateOptions is the options of a creation of a subresource.
type SubResourceCreateOptions struct{ CreateOptions }

// ApplyToSubResourceCreate copies the options that are set.
func (options *SubResourceCreateOptions) ApplyToSubResourceCreate(to *SubResourceCreateOptions) {
	options.ApplyToCreate(&to.CreateOptions)
}

// ApplyOptions applies options to these.
func (options *SubResourceCreateOptions) ApplyOptions(of []SubResourceCreateOption) *SubResourceCreateOptions {
	for _, option := range of {
		option.ApplyToSubResourceCreate(options)
	}
	return options
}

// SubResourcePatchOptions is the options of a patch of a subresource.
type SubResourcePatchOptions struct {
	PatchOptions
	// SubResourceBody is the subresource; nil if it is a part of the object.
	SubResourceBody Object
}

// ApplyToSubResourcePatch copies the options that are set.
func (options *SubResourcePatchOptions) ApplyToSubResourcePatch(to *SubResourcePatchOptions) {
	options.ApplyToPatch(&to.PatchOptions)
	if options.SubResourceBody != nil {
		to.SubResourceBody = options.SubResourceBody
	}
}

// ApplyOptions applies options to these.
func (options *SubResourcePatchOptions) ApplyOptions(of []SubResourcePatchOption) *SubResourcePatchOptions {
	for _, option := range of {
		option.ApplyToSubResourcePatch(options)
	}
	return options
}

// SubResourceApplyOptions is the options of an apply of a subresource.
type SubResourceApplyOptions struct {
	ApplyOptions
	// SubResourceBody is the subresource; nil if it is a part of the object.
	SubResourceBody runtime.ApplyConfiguration
}

// ApplyToSubResourceApply copies the options that are set.
func (options *SubResourceApplyOptions) ApplyToSubResourceApply(to *SubResourceApplyOptions) {
	options.ApplyToApply(&to.ApplyOptions)
	if options.SubResourceBody != nil {
		to.SubResourceBody = options.SubResourceBody
	}
}

// ApplyOpts applies options to these.
func (options *SubResourceApplyOptions) ApplyOpts(of []SubResourceApplyOption) *SubResourceApplyOptions {
	for _, option := range of {
		option.ApplyToSubResourceApply(options)
	}
	return options
}

// SubResourceUpdateAndPatchOption is an option of updates and of patches of a subresource.
type SubResourceUpdateAndPatchOption interface {
	SubResourceUpdateOption
	SubResourcePatchOption
}

// WithSubResourceBody writes this subresource.
func WithSubResourceBody(body Object) SubResourceUpdateAndPatchOption { return subResourceBody{body} }

type subResourceBody struct{ body Object }

func (of subResourceBody) ApplyToSubResourceUpdate(to *SubResourceUpdateOptions) {
	to.SubResourceBody = of.body
}

func (of subResourceBody) ApplyToSubResourcePatch(to *SubResourcePatchOptions) {
	to.SubResourceBody = of.body
}
