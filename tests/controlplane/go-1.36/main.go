// Controlplane is etcd, kube-apiserver and kube-scheduler in one binary, so that shared packages are linked and stored
// only once. kube-controller-manager is a binary of its own, which go.mod names as a tool: few runs need it.
//
// It runs the part that matches its own name, or else its first argument:
//
//	controlplane kube-apiserver --etcd-servers=...
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	_ "time/tzdata" // CronJobs have time zones, and the machine may lack the time zone database.

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

type part struct {
	name string
	run  func() int
}

// parts lists the parts in the order in which a control plane starts them. Each reads os.Args.
var parts = []part{
	{"etcd", func() int { etcdmain.Main(os.Args); return 0 }},
	{"kube-apiserver", func() int { return cli.Run(apiserver.NewAPIServerCommand()) }},
	{"kube-scheduler", func() int { return cli.Run(scheduler.NewSchedulerCommand()) }},
}

func main() {
	called := find(filepath.Base(os.Args[0]))
	if called == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		called = find(os.Args[0])
	}
	if called == nil {
		fmt.Fprintf(os.Stderr, "controlplane: unknown part %q; the first argument must be one of:\n", os.Args[0])
		for _, p := range parts {
			fmt.Fprintf(os.Stderr, "  %s\n", p.name)
		}
		os.Exit(2)
	}
	// client-go derives its User-Agent from os.Args[0].
	os.Args[0] = called.name
	os.Exit(called.run())
}

// find returns the part with this name, or nil.
func find(name string) *part {
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &parts[i]
}
