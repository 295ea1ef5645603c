package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// imports imports a project of these files, without resolving its modules. It returns the main package, the role and
// the report.
func imports(t *testing.T, files map[string]string) (*plugin, string, *report) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/web\n\ngo 1.26.0\n\nrequire sigs.k8s.io/controller-runtime v0.25.0\n" + files["go.mod"]
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report := &report{}
	project, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	setUp, err := project.setUp(report)
	if err != nil {
		t.Fatal(err)
	}
	made := &plugin{request: request{dir, filepath.Join(dir, "plugin"), "web"}, project: project, setUp: setUp}
	made.scheme(report)
	made.role = project.role("web", report)
	text, err := made.main()
	if err != nil {
		t.Fatal(err)
	}
	return made, text, report
}

// has fails unless a text has all of these parts, with any white space between words.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	words := strings.Join(strings.Fields(text), " ")
	for _, part := range parts {
		if !strings.Contains(words, strings.Join(strings.Fields(part), " ")) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q is in\n%s", part, text)
		}
	}
}

const mainHead = `package main

import (
	"flag"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	webv1 "example.com/web/api/v1"
	"example.com/web/internal/controller"
	webhookv1 "example.com/web/internal/webhook/v1"
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(webv1.AddToScheme(scheme))
}

const finalizer = "web.example.com/" + suffix

const suffix = "cleanup"

func main() {
	var period time.Duration
	flag.DurationVar(&period, "period", 10*time.Minute, "How often.")
	image := flag.String("image", "nginx", "The image.")
	flag.Parse()
	ctx := ctrl.SetupSignalHandler()
	clients := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		os.Exit(1)
	}
`

const mainTail = `
	if err := mgr.AddHealthzCheck("healthz", nil); err != nil {
		os.Exit(1)
	}
	if err := mgr.Start(ctx); err != nil {
		os.Exit(1)
	}
}
`

func web(setUp string) map[string]string {
	return map[string]string{
		"cmd/main.go": mainHead + setUp + mainTail,
		"api/v1/types.go": `package v1

// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=s

// Site is a site.
type Site struct{}

type Page struct{}
`,
		"internal/controller/site.go": `package controller

import (
	corev1 "k8s.io/api/core/v1"
	webv1 "example.com/web/api/v1"
)

// SiteReconciler reconciles sites.
type SiteReconciler struct{}

// +kubebuilder:rbac:groups=web.example.com,resources=sites;sites/status,verbs=get;update
// +kubebuilder:rbac:groups=core,resources=secrets,verbs=get,namespace=system
// +kubebuilder:rbac:groups="",resources=events,verbs=create
// +kubebuilder:rbac:urls=/metrics,verbs=get

func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error { return nil }

type Forgotten struct{}

func (r *Forgotten) SetupWithManager(mgr ctrl.Manager) error { return nil }
`,
		"internal/webhook/v1/site.go": "package v1\n",
	}
}

func TestTheSetUpIsTakenFromTheMainFunction(t *testing.T) {
	made, text, report := imports(t, web(`
	if err := (&controller.SiteReconciler{
		Client: mgr.GetClient(),
		Scheme: scheme,
	}).SetupWithManager(mgr); err != nil {
		setupLog.Error(err, "Failed to create controller", "controller", "site")
		os.Exit(1)
	}
	if os.Getenv("ENABLE_WEBHOOKS") != "false" {
		if err := webhookv1.SetupSiteWebhookWithManager(mgr); err != nil {
			os.Exit(1)
		}
	}
	setupLog.Info("Starting manager")
`))
	has(t, text,
		"func setUp(mgr ctrl.Manager) error {", "scheme := mgr.GetScheme()",
		"if err := (&controller.SiteReconciler{ Client: mgr.GetClient(), Scheme: scheme, }).SetupWithManager(mgr); err != nil { return err }",
		"Scheme: []func(*runtime.Scheme) error{ webv1.AddToScheme, corev1.AddToScheme, },",
		`corev1 "k8s.io/api/core/v1"`, "ClusterScoped: []client.Object{&webv1.Site{}}", "Role: role,",
	)
	lacks(t, text, "setupLog", "os.Exit", "Webhook", "clientgoscheme", "Healthz", `"flag"`, "Page{}")
	if !slices.Equal(report.Controllers, []string{"controller.SiteReconciler"}) {
		t.Errorf("the controllers are %q", report.Controllers)
	}
	left, notes := strings.Join(report.Left, "\n"), strings.Join(report.Notes, "\n")
	has(t, left, "SetupSiteWebhookWithManager is left out: a plugin has no webhooks", "cmd/main.go:", "the permission for URLs")
	has(t, notes, "Forgotten is not set up", "not limited to namespace system")
	has(t, made.role, `resources: ["sites", "sites/status"]`, `- apiGroups: [""] resources: ["secrets"] verbs: ["get"]`)
	lacks(t, made.role, "events", "metrics")
}

func TestVariablesAndDeclarationsThatTheSetUpNeedsComeAlong(t *testing.T) {
	_, text, report := imports(t, web(`
	indexer := mgr.GetFieldIndexer()
	if err = controller.Index(ctx, indexer); err != nil {
		os.Exit(1)
	}
	unused := mgr.GetCache()
	reconciler := &controller.SiteReconciler{Period: period, Image: *image, Finalizer: finalizer}
	reconciler.Client = mgr.GetClient()
	err = reconciler.SetupWithManager(mgr)
	if err != nil {
		setupLog.Error(err, "no")
		os.Exit(1)
	}
	if err := (&controller.Forgotten{Clients: clients}).SetupWithManager(mgr); err != nil {
		os.Exit(1)
	}
	if err := mgr.Add(controller.Runner{}); err != nil {
		os.Exit(1)
	}
`))
	has(t, text,
		"ctx := context.Background()", "var period time.Duration period = 10 * time.Minute", `image := new("nginx")`, "var err error",
		"if err = controller.Index(ctx, indexer); err != nil { return err }",
		"reconciler.Client = mgr.GetClient()", "err = reconciler.SetupWithManager(mgr) if err != nil { return err }",
		`const finalizer = "web.example.com/" + suffix`, `const suffix = "cleanup"`,
	)
	lacks(t, text, "unused", "clients", "Forgotten", "Runner")
	left, notes := strings.Join(report.Left, "\n"), strings.Join(report.Notes, "\n")
	has(t, left, "it needs `clients`, and a plugin has no", "the statement with Add is left out: a plugin runs no runnables")
	has(t, notes, "--period has its default, 10*time.Minute", "--image has its default")
}

func TestWithoutAMainFunctionAllReconcilersAreSetUp(t *testing.T) {
	_, text, report := imports(t, map[string]string{
		"api/v1/types.go": "package v1\n\nfunc AddToScheme(scheme *runtime.Scheme) error { return nil }\n",
		"controllers/site.go": `package controllers

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webv1 "example.com/web/api/v1"
)

type SiteReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Image    string
	hidden   int
}

func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error { return nil }
`,
	})
	has(t, text,
		`(&controllers.SiteReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Recorder: mgr.GetEventRecorder("sitereconciler")}).SetupWithManager(mgr)`,
		`apiv1 "example.com/web/api/v1"`, "apiv1.AddToScheme",
	)
	has(t, strings.Join(report.Left, "\n"), "the field Image of SiteReconciler has no value", "list the plugin's permissions")
}

func TestTheModuleOfThePluginHasTheProjectsReplacements(t *testing.T) {
	files := web("\t_ = mgr\n\tif err := (&controller.SiteReconciler{}).SetupWithManager(mgr); err != nil {\n\t\tos.Exit(1)\n\t}\n")
	files["go.mod"] = "replace example.com/lib => ./lib\n\nreplace example.com/other v1.0.0 => example.com/fork v1.1.0\n"
	made, _, _ := imports(t, files)
	has(t, made.goMod(true), "module example.com/web/plugin/web", "go 1.26.0", "example.com/web => ..", "example.com/lib => .././lib",
		"example.com/other v1.0.0 => example.com/fork v1.1.0", "k8s.io/client-go => ./flyball-sdk/controllerruntime/clientgo")
	lacks(t, made.goMod(false), "k8s.io/client-go =>")
}

func TestFunctionsThatGetTheManagerAreCopiedWithoutWhatAPluginLacks(t *testing.T) {
	files := web("\tready := make(chan struct{})\n\tcert.Manage(mgr, ready)\n\tsetupHealth(mgr)\n\tgo setupControllers(mgr, ready)\n" +
		"\tif err := setupMore(mgr); err != nil {\n\t\tos.Exit(1)\n\t}\n")
	files["cmd/helpers.go"] = `package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/web/internal/controller"
	webhooks "example.com/web/internal/webhook/v1"
)

func setupHealth(mgr ctrl.Manager) {
	mgr.AddHealthzCheck("healthz", nil)
}

func setupControllers(mgr ctrl.Manager, ready chan struct{}) {
	setupLog.Info("waiting")
	<-ready
	sites := controller.NewSites(mgr.GetClient())
	if err := sites.SetupWithManager(mgr); err != nil {
		setupLog.Error(err, "no")
		os.Exit(1)
	}
	if err := webhooks.Setup(mgr); err != nil {
		os.Exit(1)
	}
}

func setupMore(mgr ctrl.Manager) error {
	return (&controller.SiteReconciler{}).SetupWithManager(mgr)
}
`
	_, text, report := imports(t, files)
	has(t, text,
		"ready := make(chan struct{}) if err := setupControllers(mgr, ready); err != nil { return err }",
		"if err := setupMore(mgr); err != nil { return err } return nil }",
		`func setupControllers(mgr ctrl.Manager, ready chan struct{}) error { sites := controller.NewSites(mgr.GetClient())
		if err := sites.SetupWithManager(mgr); err != nil { return err } return nil }`,
		"func setupMore(mgr ctrl.Manager) error { return (&controller.SiteReconciler{}).SetupWithManager(mgr) }",
	)
	lacks(t, text, "setupHealth", "waiting", "<-ready", "webhooks", "cert.")
	has(t, strings.Join(report.Left, "\n"), "cert.Manage is left out", "webhooks.Setup is left out")
	if !slices.Equal(report.Controllers, []string{"sites", "controller.SiteReconciler"}) {
		t.Errorf("the controllers are %q", report.Controllers)
	}
}
