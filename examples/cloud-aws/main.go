// The plugin cloud-aws: Kubernetes' provider for AWS, k8s.io/cloud-provider-aws, from its Go module, unedited.
package main

import (
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"

	"flyball.dev/sdk"
	"flyball.dev/sdk/cloudprovider/plugin"
)

func init() {
	plugin.Export(plugin.Options{
		Name: "cloud-aws", Version: "1.37.1", Provider: aws.ProviderName,
		// A plugin runs on no instance of its own, so that it can't ask about one.
		Environment: map[string]string{"AWS_EC2_METADATA_DISABLED": "true"},
		Credentials: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"},
		// What the provider reads of Nodes.
		Watches: []flyball.Watch{{Kind: "v1/Node", Fields: []string{"metadata.name", "metadata.uid", "metadata.labels", "spec.providerID"}}},
		// It logs the version of the cluster.
		Imports: []string{"raw"},
	})
}

func main() {}
