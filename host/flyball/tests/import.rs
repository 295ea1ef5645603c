//! `flyball import`: a small project for controller-runtime becomes a plugin's module. What kubebuilder itself scaffolds
//! is imported by a test against a control plane, `tests/cluster/tests/all/kubebuilder.rs`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use flyball_controlplane::skip;

const GO_MOD: &str = "module example.com/team/site-operator

go 1.26.0

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	sigs.k8s.io/controller-runtime v0.25.2
)
";

const MAIN: &str = r#"package main

import (
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"example.com/team/site-operator/internal/controller"
)

func main() {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		os.Exit(1)
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		os.Exit(1)
	}
	if err := (&controller.Maps{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		os.Exit(1)
	}
	if err := mgr.Add(manager.RunnableFunc(nil)); err != nil {
		os.Exit(1)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
"#;

const CONTROLLER: &str = r#"package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Maps struct{ client.Client }

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

func (maps *Maps) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, nil
}

func (maps *Maps) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(maps)
}
"#;

fn write(dir: &Path, file: &str, text: &str) {
    let path = dir.join(file);
    fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn import(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flyball"))
        .arg("import")
        .arg(dir)
        .args(arguments)
        .output()
        .expect("the binary")
}

#[test]
fn a_project_for_controller_runtime_becomes_a_plugin() {
    if Command::new("go").arg("version").output().is_err() {
        skip(
            "a_project_for_controller_runtime_becomes_a_plugin",
            "Go is missing",
        )
        .unwrap();
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    write(dir, "go.mod", GO_MOD);
    write(dir, "cmd/main.go", MAIN);
    write(dir, "internal/controller/maps.go", CONTROLLER);
    let before = fs::read_to_string(dir.join("go.mod")).expect("the project's go.mod");
    let done = import(dir, &[]);
    let (said, errors) = (
        String::from_utf8_lossy(&done.stdout).into_owned(),
        String::from_utf8_lossy(&done.stderr).into_owned(),
    );
    assert!(done.status.success(), "{said}{errors}");
    for part in [
        "wrote the plugin site-operator",
        "controller.Maps",
        "cmd/main.go:26: the statement with Add is left out: a plugin runs no runnables",
        "no controller watches v1/Secret",
        "flyball rbac site-operator.wasm --policy policy.toml",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    let plugin = dir.join("plugin");
    let policy = fs::read_to_string(plugin.join("policy.toml")).expect("a policy");
    assert!(policy.contains("[plugins.site-operator]") && policy.contains("v1/ConfigMap"));
    assert!(plugin.join("site-operator.wasm").is_file());
    let main = fs::read_to_string(plugin.join("main.go")).expect("a main package");
    assert!(
        !main.contains("GetConfigOrDie") && !main.contains("os.Exit"),
        "{main}"
    );
    // The project is as it was.
    assert_eq!(
        fs::read_to_string(dir.join("go.mod")).expect("a file"),
        before
    );

    let again = import(dir, &[]);
    let errors = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && errors.contains("--dir"),
        "{errors}"
    );
}

#[test]
fn a_folder_without_a_module_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = import(folder.path(), &[]);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        !done.status.success() && errors.contains("it has no go.mod"),
        "{errors}"
    );
}
