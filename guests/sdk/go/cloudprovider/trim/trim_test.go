package main

import (
	"strings"
	"testing"
)

const clientset = `package kubernetes

import (
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Interface has all groups.
type Interface interface {
	AppsV1() appsv1.AppsV1Interface
	CoreV1() corev1.CoreV1Interface
}

type Clientset struct {
	appsV1 *appsv1.AppsV1Client
	coreV1 *corev1.CoreV1Client
}

func (c *Clientset) AppsV1() appsv1.AppsV1Interface { return c.appsV1 }
func (c *Clientset) CoreV1() corev1.CoreV1Interface { return c.coreV1 }

var all = []func(){appsv1.AddToScheme, corev1.AddToScheme}

func New(resource string) (*Clientset, error) {
	var cs Clientset
	var err error
	cs.appsV1, err = appsv1.New()
	if err != nil {
		return nil, err
	}
	cs.coreV1, err = corev1.New()
	if err != nil {
		return nil, err
	}
	switch resource {
	case appsv1.Name:
		return nil, nil
	case corev1.Name:
		return &cs, nil
	}
	return &cs, nil
}
`

const trimmedClientset = `package kubernetes

import (
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

type Interface interface {
	CoreV1() corev1.CoreV1Interface
}

type Clientset struct {
	coreV1 *corev1.CoreV1Client
}

func (c *Clientset) CoreV1() corev1.CoreV1Interface	{ return c.coreV1 }

var all = []func(){corev1.AddToScheme}

func New(resource string) (*Clientset, error) {
	var cs Clientset
	var err error
	if err != nil {
		return nil, err
	}
	cs.coreV1, err = corev1.New()
	if err != nil {
		return nil, err
	}
	switch resource {
	case corev1.Name:
		return &cs, nil
	}
	return &cs, nil
}
`

func TestAGroupIsLeftOutWhereverItIsMentioned(t *testing.T) {
	short, err := without([]byte(clientset), func(path string) bool { return strings.Contains(path, "/apps/") })
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if words(string(short)) != words(trimmedClientset) {
		t.Errorf("the file becomes\n%s", short)
	}
}

func TestGroupsAreUsedByPackagesThatDoNotListAllOfThem(t *testing.T) {
	used := usedGroups([]goPackage{
		{ImportPath: "example.com/cloud", Imports: []string{"k8s.io/api/core/v1", "k8s.io/client-go/informers/discovery/v1", "fmt"}},
		{ImportPath: "k8s.io/client-go/kubernetes", Imports: []string{"k8s.io/client-go/kubernetes/typed/apps/v1"}},
		{ImportPath: "k8s.io/client-go/kubernetes/typed/core/v1", Imports: []string{"k8s.io/api/policy/v1", "k8s.io/client-go/kubernetes/scheme"}},
		{ImportPath: "k8s.io/client-go/tools/leaderelection", Imports: []string{"k8s.io/api/coordination/v1"}},
	})
	for group, wanted := range map[string]bool{"core": true, "discovery": true, "policy": true, "coordination": true, "apps": false, "scheme": false} {
		if used[group] != wanted {
			t.Errorf("%s is used: %v", group, used[group])
		}
	}
	for path, wanted := range map[string]bool{
		"k8s.io/api/apps/v1": true, "k8s.io/client-go/informers/apps": true, "k8s.io/client-go/kubernetes/typed/core/v1": false,
		"k8s.io/client-go/informers/internalinterfaces": false, "k8s.io/client-go/rest": false,
	} {
		if isUnused(path, used) != wanted {
			t.Errorf("%s is unused: %v", path, !wanted)
		}
	}
}
