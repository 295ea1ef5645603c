package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"flyball.dev/sdk/cloud"
)

// opened is a cloud that was opened with these credentials.
type opened struct {
	cloud       cloudprovider.Interface
	credentials map[string]string
	stop        context.CancelFunc
}

// open returns the cloud of this instance. It opens the cloud again after its credentials have changed.
func (provider *provider) open(host *cloud.Host) (*opened, error) {
	credentials := map[string]string{}
	for _, name := range append([]string{cloud.ConfigName}, provider.options.Credentials...) {
		if value, found := host.Credential(name); found {
			credentials[name] = string(value)
		}
	}
	if provider.opened != nil {
		if maps.Equal(provider.opened.credentials, credentials) {
			return provider.opened, nil
		}
		provider.opened.stop()
		provider.opened = nil
	}
	klog.SetSlogLogger(host.Log())
	if err := provider.setEnvironment(credentials); err != nil {
		return nil, err
	}
	of, err := provider.openCloud(credentials)
	if err != nil {
		return nil, fmt.Errorf("can't open the cloud %s: %w", provider.options.Provider, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	clients := clients{host.Host}
	// In the order of cloud-controller-manager.
	of.Initialize(clients, ctx.Done())
	if user, uses := of.(cloudprovider.InformerUser); uses {
		factory, err := newInformers(host.Host, clients, provider.options.Watches, &provider.calls)
		if err != nil {
			stop()
			return nil, err
		}
		user.SetInformers(factory)
	}
	provider.opened = &opened{of, credentials, stop}
	return provider.opened, nil
}

func (provider *provider) openCloud(credentials map[string]string) (cloudprovider.Interface, error) {
	// Providers compare with nil.
	var config io.Reader
	if text, found := credentials[cloud.ConfigName]; found {
		config = bytes.NewReader([]byte(text))
	}
	if provider.options.Open != nil {
		return provider.options.Open(config)
	}
	of, err := cloudprovider.GetCloudProvider(provider.options.Provider, config)
	if of == nil && err == nil {
		return nil, fmt.Errorf("no provider of this name is registered: import its package, or set Options.Open")
	}
	return of, err
}

func (provider *provider) setEnvironment(credentials map[string]string) error {
	for name, value := range provider.options.Environment {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("can't set the variable %s: %w", name, err)
		}
	}
	for _, name := range provider.options.Credentials {
		value, found := credentials[name]
		if !found {
			if _, isSet := provider.options.Environment[name]; !isSet {
				os.Unsetenv(name)
			}
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("can't set the variable %s: %w", name, err)
		}
	}
	return nil
}
