// Package controllertest is the suite of JobSet's integration tests of its controllers. The test in tests/cluster
// copies their specs, which are in JobSet's Go module, beside this file. It stands in for the file of that module that
// starts an API server, and a manager in the tests' process: here both run already, and the manager is a host with
// JobSet's controllers as a plugin.
package controllertest

import (
	"context"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

var (
	ctx       = context.Background()
	k8sClient client.Client
)

func TestAPIs(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "JobSet's controllers as a plugin")
}

var _ = ginkgo.BeforeSuite(func() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	// Envtest's own limits.
	config.QPS, config.Burst = 1000, 2000
	gomega.Expect(jobset.AddToScheme(scheme.Scheme)).To(gomega.Succeed())
	k8sClient, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
})
