// Dump prints what kube-controller-manager says about its flags, controllers and feature gates into the files that
// Flyball is checked against. To follow another release, copy it into a folder with the go.mod and go.sum of
// tests/controlplane/go, changed to that release, and run
//
//	go run -mod=mod dump.go PATH/host/flyball
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const header = "# What the kube-controller-manager of Kubernetes v1.36.3 says about its %s, with tabs between them.\n" +
	"# Printed by dump.go beside this file.\n"

func main() {
	folder := os.Args[1]
	write(filepath.Join(folder, "testdata", "kcm-1.36-flags.txt"), fmt.Sprintf(header, "flags: name, type and default"), flags())
	write(filepath.Join(folder, "testdata", "kcm-1.36-controllers.txt"),
		fmt.Sprintf(header, "controllers: name, aliases, disabled by default, of cloud providers and feature gates"), controllers())
	write(filepath.Join(folder, "src", "kcm", "feature-gates.txt"), "", gates())
}

func flags() []string {
	command := app.NewControllerManagerCommand()
	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	command.InitDefaultHelpFlag()
	var lines []string
	command.Flags().VisitAll(func(f *pflag.Flag) {
		lines = append(lines, strings.Join([]string{f.Name, f.Value.Type(), f.DefValue}, "\t"))
	})
	return lines
}

func controllers() []string {
	var lines []string
	for name, descriptor := range app.NewControllerDescriptors() {
		var gates []string
		for _, gate := range descriptor.GetRequiredFeatureGates() {
			gates = append(gates, string(gate))
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%v\t%v\t%s", name, strings.Join(descriptor.GetAliases(), ","),
			descriptor.IsDisabledByDefault(), descriptor.IsCloudProviderController(), strings.Join(gates, ",")))
	}
	return lines
}

func gates() []string {
	var lines []string
	for gate := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		lines = append(lines, string(gate))
	}
	return lines
}

func write(path, header string, lines []string) {
	sort.Strings(lines)
	if err := os.WriteFile(path, []byte(header+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		panic(err)
	}
}
