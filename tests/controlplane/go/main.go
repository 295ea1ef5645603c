// Controlplane is etcd, kube-apiserver, kube-scheduler and kube-controller-manager in one binary, so that the parts
// that they share are compiled, linked and kept on disk once.
//
// It runs the part that it is called as, or the one that its first argument names:
//
//	controlplane kube-apiserver --etcd-servers=...
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no database of them.

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

type part struct {
	name string
	run  func() int
}

// parts are in the order in which a control plane starts them. Each reads os.Args as if it were alone.
var parts = []part{
	{"etcd", func() int { etcdmain.Main(os.Args); return 0 }},
	{"kube-apiserver", func() int { return cli.Run(apiserver.NewAPIServerCommand()) }},
	{"kube-scheduler", func() int { return cli.Run(scheduler.NewSchedulerCommand()) }},
	{"kube-controller-manager", func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }},
}

func main() {
	called := find(filepath.Base(os.Args[0]))
	if called == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		called = find(os.Args[0])
	}
	if called == nil {
		fmt.Fprintf(os.Stderr, "controlplane: can't run %q: there is no such part; the first argument must be one of:\n", os.Args[0])
		for _, p := range parts {
			fmt.Fprintf(os.Stderr, "  %s\n", p.name)
		}
		os.Exit(2)
	}
	// client-go makes its User-Agent from os.Args[0].
	os.Args[0] = called.name
	os.Exit(called.run())
}

// find returns nil if no part has that name.
func find(name string) *part {
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &parts[i]
}
