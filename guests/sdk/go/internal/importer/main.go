// Command importer makes a plugin of a project that is written for controller-runtime. `flyball import` runs it.
//
// In the flow: it parses the project's packages (project.go), takes the statements that set up controllers from its main
// function (setup.go), its scheme (scheme.go) and its permissions (role.go), and writes a module for the plugin
// (render.go). It prints a report as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// report says what was done.
type report struct {
	// Wrote are the files, relative to the plugin's folder.
	Wrote []string `json:"wrote"`
	// Controllers are the reconcilers that the plugin sets up.
	Controllers []string `json:"controllers"`
	// Left are parts of the project that are not in the plugin, each with its place and the reason.
	Left []string `json:"left"`
	// Notes are other remarks.
	Notes []string `json:"notes"`
}

func (report *report) leave(format string, arguments ...any) {
	report.Left = append(report.Left, fmt.Sprintf(format, arguments...))
}

func (report *report) note(format string, arguments ...any) {
	report.Notes = append(report.Notes, fmt.Sprintf(format, arguments...))
}

func main() {
	var wanted request
	flag.StringVar(&wanted.project, "project", "", "the project's folder")
	flag.StringVar(&wanted.plugin, "plugin", "", "the plugin's folder, which holds the SDK in flyball-sdk")
	flag.StringVar(&wanted.name, "name", "", "the plugin's name")
	flag.Parse()
	report, err := wanted.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// request is what to import, and where to.
type request struct{ project, plugin, name string }

func (wanted request) run() (*report, error) {
	report := &report{Wrote: []string{}, Controllers: []string{}, Left: []string{}, Notes: []string{}}
	project, err := read(wanted.project)
	if err != nil {
		return nil, err
	}
	setUp, err := project.setUp(report)
	if err != nil {
		return nil, err
	}
	plugin := &plugin{request: wanted, project: project, setUp: setUp}
	plugin.scheme(report)
	plugin.role = project.role(wanted.name, report)
	return report, plugin.write(report)
}
