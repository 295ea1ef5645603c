package plugin

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// kind is a kind, and its text in the world.
type kind struct {
	schema.GroupVersionKind
	text string
}

// kindOf returns the kind of an object, or of a list's items.
func (all *collector) kindOf(object runtime.Object) (kind, error) {
	found, err := apiutil.GVKForObject(object, all.plugin.scheme)
	if err != nil {
		return kind{}, err
	}
	if _, isList := object.(meta.List); isList || meta.IsListType(object) {
		found.Kind = strings.TrimSuffix(found.Kind, "List")
	}
	return kind{found, textOf(found)}, nil
}

// textOf returns a kind as the world writes it: `apps/v1/Deployment`, `v1/Pod`.
func textOf(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + "/" + kind.Kind
}

// clusterScoped are the built-in kinds without a namespace, as `group/Kind`.
var clusterScoped = strings.Fields(`
	/ComponentStatus /Namespace /Node /PersistentVolume
	admissionregistration.k8s.io/MutatingAdmissionPolicy admissionregistration.k8s.io/MutatingAdmissionPolicyBinding
	admissionregistration.k8s.io/MutatingWebhookConfiguration admissionregistration.k8s.io/ValidatingAdmissionPolicy
	admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding admissionregistration.k8s.io/ValidatingWebhookConfiguration
	apiextensions.k8s.io/CustomResourceDefinition apiregistration.k8s.io/APIService
	authentication.k8s.io/SelfSubjectReview authentication.k8s.io/TokenReview
	authorization.k8s.io/SelfSubjectAccessReview authorization.k8s.io/SelfSubjectRulesReview
	authorization.k8s.io/SubjectAccessReview
	certificates.k8s.io/CertificateSigningRequest certificates.k8s.io/ClusterTrustBundle
	flowcontrol.apiserver.k8s.io/FlowSchema flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration
	internal.apiserver.k8s.io/StorageVersion
	networking.k8s.io/IngressClass networking.k8s.io/IPAddress networking.k8s.io/ServiceCIDR
	node.k8s.io/RuntimeClass
	rbac.authorization.k8s.io/ClusterRole rbac.authorization.k8s.io/ClusterRoleBinding
	resource.k8s.io/DeviceClass resource.k8s.io/DeviceTaintRule resource.k8s.io/ResourcePoolStatusRequest
	resource.k8s.io/ResourceSlice
	scheduling.k8s.io/PriorityClass
	storage.k8s.io/CSIDriver storage.k8s.io/CSINode storage.k8s.io/StorageClass storage.k8s.io/VolumeAttachment
	storage.k8s.io/VolumeAttributesClass storagemigration.k8s.io/StorageVersionMigration`)

// mapper maps the kinds of the scheme to resources, by the rules that most kinds follow.
type mapper struct {
	*meta.DefaultRESTMapper
	plugin *Plugin
	custom []schema.GroupKind
}

func newMapper(plugin *Plugin) meta.RESTMapper {
	custom := []schema.GroupKind{}
	for _, object := range plugin.options.ClusterScoped {
		if found, err := apiutil.GVKForObject(object, plugin.scheme); err == nil {
			custom = append(custom, found.GroupKind())
		}
	}
	mapper := mapper{meta.NewDefaultRESTMapper(plugin.scheme.PrioritizedVersionsAllGroups()), plugin, custom}
	for kind := range plugin.scheme.AllKnownTypes() {
		mapper.Add(kind, mapper.scope(kind.GroupKind()))
	}
	return mapper
}

func (mapper mapper) scope(kind schema.GroupKind) meta.RESTScope {
	if slices.Contains(mapper.custom, kind) || slices.Contains(clusterScoped, kind.Group+"/"+kind.Kind) {
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}

// RESTMapping also maps kinds that the scheme does not have, such as kinds of unstructured objects.
func (mapper mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := mapper.DefaultRESTMapper.RESTMapping(kind, versions...)
	if err == nil || len(versions) == 0 || versions[0] == "" {
		return found, err
	}
	versioned := kind.WithVersion(versions[0])
	plural, _ := meta.UnsafeGuessKindToResource(versioned)
	return &meta.RESTMapping{Resource: plural, GroupVersionKind: versioned, Scope: mapper.scope(kind)}, nil
}
