// Cloud-controller-manager is the stock cloud-controller-manager with the sample cloud as its only provider, for tests that
// compare its controllers with those of Flyball.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/klog/v2"

	_ "flyball.invalid/controlplane/samplecloud" // It registers the provider.
)

func main() {
	managerOptions, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("can't initialise the options of cloud-controller-manager: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(
		managerOptions,
		openCloud,
		app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		wait.NeverStop,
	)
	os.Exit(cli.Run(command))
}

// openCloud returns the provider that --cloud-provider names.
func openCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	provider := completed.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(provider.Name, provider.CloudConfigFile)
	if err != nil {
		klog.Fatalf("can't open the cloud %q with the configuration %q: %v", provider.Name, provider.CloudConfigFile, err)
	}
	if cloud == nil {
		klog.Fatalf("there is no cloud %q: set --cloud-provider=sample", provider.Name)
	}
	return cloud
}
