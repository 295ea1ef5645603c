package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// setUp is the function that sets up the controllers.
type setUp struct {
	// manager is the name of its parameter.
	manager string
	// statements is its body, without the last return.
	statements []string
	// declarations are functions, variables and types that it uses.
	declarations []string
	// imports are the paths that its code may use, by their names.
	imports map[string]string
	// main is the package that it is taken from; nil if there is none.
	main *goPackage
}

// silent are the functions of a manager that have no counterpart in a plugin, because the host does the same.
var silent = []string{"Start", "AddHealthzCheck", "AddReadyzCheck"}

// refused are functions that a plugin does not have, with the reason.
var refused = map[string]string{
	"Add":                          "a plugin runs no runnables",
	"AddMetricsServerExtraHandler": "a plugin serves no HTTP",
	"GetWebhookServer":             "a plugin has no webhooks",
	"GetConfig":                    "a plugin has no REST config",
	"GetConfigOrDie":               "a plugin has no REST config",
	"GetHTTPClient":                "a plugin has no client for the API server",
	"NewForConfig":                 "a plugin has no client for the API server of its own",
	"NewForConfigOrDie":            "a plugin has no client for the API server of its own",
	"GetConverterRegistry":         "a plugin has no webhooks",
}

// setUp finds the function that creates a manager, and takes the statements that use it.
func (project *project) setUp(report *report) (*setUp, error) {
	found := []*extraction{}
	for _, of := range project.sorted() {
		if of.name != "main" {
			continue
		}
		for _, source := range of.sources {
			if taken := project.newManager(of, source); taken != nil {
				found = append(found, taken)
			}
		}
	}
	if len(found) == 0 {
		return project.guess(report)
	}
	for _, other := range found[1:] {
		report.leave("%s: another main function creates a manager: import its controllers by hand", project.place(other.created.Pos()))
	}
	taken := found[0].run(report)
	if len(taken.statements) == 0 {
		return nil, fmt.Errorf("can't import %s: nothing that a plugin can run uses the manager that %s creates", project.dir, project.place(found[0].created.Pos()))
	}
	return taken, nil
}

// extraction takes statements from a function.
type extraction struct {
	*project
	of     *goPackage
	source *source
	body   *ast.BlockStmt
	// created is the statement of the body that creates the manager; nil if the manager is a parameter.
	created ast.Stmt
	manager string
	report  *report
	// parameters are the names of the function's parameters.
	parameters []string
	copied     *copied
	// locals are the variables of the function that kept statements define.
	locals map[string]bool
}

// copied are the declarations of the package that the plugin uses.
type copied struct {
	names        map[string]bool
	declarations []string
	// helpers are functions that get the manager, by their names. A helper without statements has an empty text.
	helpers map[string]bool
}

// newManager finds the statement that creates a manager.
func (project *project) newManager(of *goPackage, source *source) (found *extraction) {
	ast.Inspect(source.File, func(node ast.Node) bool {
		body, isBlock := node.(*ast.BlockStmt)
		if !isBlock || found != nil {
			return found == nil
		}
		for _, statement := range body.List {
			assigned, isAssignment := statement.(*ast.AssignStmt)
			if !isAssignment || len(assigned.Rhs) != 1 {
				continue
			}
			call, isCall := assigned.Rhs[0].(*ast.CallExpr)
			name, isName := assigned.Lhs[0].(*ast.Ident)
			if isCall && isName && project.createsManager(source, call) {
				found = &extraction{
					project: project, of: of, source: source, body: body, created: statement, manager: name.Name,
					copied: &copied{names: map[string]bool{}, helpers: map[string]bool{}}, locals: map[string]bool{},
				}
			}
		}
		return true
	})
	return found
}

func (project *project) createsManager(source *source, call *ast.CallExpr) bool {
	function, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector {
		return false
	}
	from, isName := function.X.(*ast.Ident)
	if !isName {
		return false
	}
	switch project.imports(source)[from.Name] {
	case controllerRuntime:
		return function.Sel.Name == "NewManager"
	case controllerRuntime + "/pkg/manager":
		return function.Sel.Name == "New"
	}
	return false
}

func (taking *extraction) run(report *report) *setUp {
	taking.report = report
	statements := taking.extract()
	taking.reportForgotten()
	return &setUp{
		manager: taking.manager, statements: statements, declarations: taking.copied.declarations,
		imports: taking.importsOf(taking.of), main: taking.of,
	}
}

// extract returns the statements of the body that a plugin needs and can run.
func (taking *extraction) extract() []string {
	var kept []ast.Stmt
	isAfter, isLastKept := taking.created == nil, false
	for _, statement := range taking.body.List {
		if statement == taking.created {
			isAfter = true
			continue
		}
		if !isAfter {
			continue
		}
		isKept := taking.keeps(statement) && taking.isPossible(statement) && !taking.callsEmptyHelper(statement)
		if check, isIf := statement.(*ast.IfStmt); isIf && check.Init == nil && isErrorCheck(check) {
			// It belongs to the statement before.
			isKept = isLastKept
		}
		if isKept {
			kept = append(kept, statement)
			for _, name := range defined(statement) {
				taking.locals[name] = true
			}
		}
		isLastKept = isKept
	}
	kept = taking.withoutUnused(kept)
	statements, kept := taking.needed(kept)
	for _, statement := range kept {
		statements = append(statements, taking.render(statement))
		taking.report.Controllers = append(taking.report.Controllers, taking.controllers(statement)...)
	}
	return statements
}

// importsOf returns the imports of all files of a package.
func (project *project) importsOf(of *goPackage) map[string]string {
	all := map[string]string{}
	for _, source := range of.sources {
		for name, path := range project.imports(source) {
			all[name] = path
		}
	}
	return all
}

// keeps says whether a statement uses the manager, or a variable of a kept statement.
func (taking *extraction) keeps(statement ast.Stmt) bool {
	if taking.calls(statement, func(name string) bool { return slices.Contains(silent, name) }) != "" &&
		!taking.mentionsAny(statement, "SetupWithManager") {
		return false
	}
	if taking.mentions(statement, taking.manager) {
		return true
	}
	for name := range taking.locals {
		if name != "err" && taking.mentions(statement, name) {
			return true
		}
	}
	return false
}

// isPossible says whether a plugin can run a statement. If not, it is reported.
func (taking *extraction) isPossible(statement ast.Stmt) bool {
	place := taking.place(statement.Pos())
	if webhook := taking.callsServer(statement); webhook != "" {
		taking.report.leave("%s: %s is left out: a plugin has no webhooks; go on serving them from the project's own manager", place, webhook)
		return false
	}
	name := taking.calls(statement, func(name string) bool { return refused[name] != "" })
	if name == "Add" && !taking.isOfManager(statement, "Add") {
		name = ""
	}
	if name != "" {
		taking.report.leave("%s: the statement with %s is left out: %s", place, name, refused[name])
		return false
	}
	return true
}

// callsServer returns the first called function that sets up webhooks or their certificates, by its name; empty if there
// is none.
func (taking *extraction) callsServer(node ast.Node) (found string) {
	ast.Inspect(node, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall || found != "" {
			return found == ""
		}
		selector, isSelector := call.Fun.(*ast.SelectorExpr)
		name := functionName(call.Fun)
		if isSelector {
			if from, isName := selector.X.(*ast.Ident); isName {
				name = from.Name + "." + name
			}
		}
		lower := strings.ToLower(name)
		if (strings.Contains(lower, "webhook") || strings.Contains(lower, "cert")) && taking.mentions(call, taking.manager) {
			found = name
		}
		return true
	})
	return found
}

// calls returns the first called function whose name fits.
func (taking *extraction) calls(node ast.Node, fits func(string) bool) (found string) {
	ast.Inspect(node, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall || found != "" {
			return found == ""
		}
		if name := functionName(call.Fun); fits(name) {
			found = name
		}
		return true
	})
	return found
}

func functionName(function ast.Expr) string {
	switch of := function.(type) {
	case *ast.SelectorExpr:
		return of.Sel.Name
	case *ast.Ident:
		return of.Name
	case *ast.IndexExpr:
		return functionName(of.X)
	}
	return ""
}

// isOfManager says whether the manager's function of this name is called.
func (taking *extraction) isOfManager(node ast.Node, name string) (found bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		if selector, isSelector := node.(*ast.SelectorExpr); isSelector && selector.Sel.Name == name {
			of, isName := selector.X.(*ast.Ident)
			found = found || isName && of.Name == taking.manager
		}
		return true
	})
	return found
}

// mentions says whether a node has an identifier of this name that is no field.
func (taking *extraction) mentions(node ast.Node, name string) bool {
	return slices.Contains(free(node), name)
}

func (taking *extraction) mentionsAny(node ast.Node, function string) bool {
	return taking.calls(node, func(name string) bool { return name == function }) != ""
}

// free returns the identifiers of a node, without those after a dot and the names of fields in literals.
func free(node ast.Node) (names []string) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch of := node.(type) {
		case *ast.SelectorExpr:
			names = append(names, free(of.X)...)
			return false
		case *ast.KeyValueExpr:
			if _, isField := of.Key.(*ast.Ident); !isField {
				names = append(names, free(of.Key)...)
			}
			names = append(names, free(of.Value)...)
			return false
		case *ast.Ident:
			names = append(names, of.Name)
		}
		return true
	})
	return names
}

// defined returns the variables that a statement defines.
func defined(statement ast.Stmt) (names []string) {
	switch of := statement.(type) {
	case *ast.AssignStmt:
		for _, left := range of.Lhs {
			if name, isName := left.(*ast.Ident); isName && of.Tok == token.DEFINE && name.Name != "_" {
				names = append(names, name.Name)
			}
		}
	case *ast.DeclStmt:
		if general, isGeneral := of.Decl.(*ast.GenDecl); isGeneral {
			for _, spec := range general.Specs {
				if values, isValues := spec.(*ast.ValueSpec); isValues {
					for _, name := range values.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// isErrorCheck says whether a statement is `if err != nil`.
func isErrorCheck(check *ast.IfStmt) bool { return checkedError(check) != "" }

// checkedError returns the variable that an if statement compares with nil; empty if there is none.
func checkedError(check *ast.IfStmt) string {
	compared, isComparison := check.Cond.(*ast.BinaryExpr)
	if !isComparison || compared.Op != token.NEQ {
		return ""
	}
	name, isName := compared.X.(*ast.Ident)
	null, isNull := compared.Y.(*ast.Ident)
	if isName && isNull && null.Name == "nil" {
		return name.Name
	}
	return ""
}

// withoutUnused removes definitions of variables that no other statement mentions.
func (taking *extraction) withoutUnused(kept []ast.Stmt) []ast.Stmt {
	for at, statement := range kept {
		names := slices.DeleteFunc(defined(statement), func(name string) bool { return name == "err" })
		isUsed := len(names) == 0
		for other, user := range kept {
			for _, name := range names {
				isUsed = isUsed || other != at && taking.mentions(user, name)
			}
		}
		if !isUsed {
			return taking.withoutUnused(slices.Delete(slices.Clone(kept), at, at+1))
		}
	}
	return kept
}

// render returns a statement. Where the original ends the process because of an error, the error is returned.
func (taking *extraction) render(statement ast.Stmt) string {
	if call := taking.bareHelperCall(statement); call != nil {
		return "if err := " + taking.code(taking.source, call) + "; err != nil {\nreturn err\n}"
	}
	check, isIf := statement.(*ast.IfStmt)
	if !isIf {
		return taking.code(taking.source, statement)
	}
	head := "if "
	if check.Init != nil {
		head += taking.code(taking.source, check.Init) + "; "
	}
	head += taking.code(taking.source, check.Cond) + " {\n"
	if err := checkedError(check); err != "" && ends(check.Body) {
		return head + "return " + err + "\n}"
	}
	for _, inner := range check.Body.List {
		if taking.isPossible(inner) {
			head += taking.render(inner) + "\n"
		}
	}
	head += "}"
	if check.Else != nil {
		head += " else "
		if block, isBlock := check.Else.(*ast.BlockStmt); isBlock {
			head += "{\n"
			for _, inner := range block.List {
				head += taking.render(inner) + "\n"
			}
			return head + "}"
		}
		head += taking.render(check.Else)
	}
	return head
}

// ends says whether a block ends the process or the function.
func ends(block *ast.BlockStmt) bool {
	if len(block.List) == 0 {
		return false
	}
	switch last := block.List[len(block.List)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.ExprStmt:
		call, isCall := last.X.(*ast.CallExpr)
		return isCall && slices.Contains([]string{"Exit", "Fatal", "Fatalf", "Fatalln", "panic"}, functionName(call.Fun))
	}
	return false
}

// controllers returns the reconcilers whose function SetupWithManager a statement calls.
func (taking *extraction) controllers(statement ast.Stmt) (names []string) {
	ast.Inspect(statement, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall {
			return true
		}
		function, isSelector := call.Fun.(*ast.SelectorExpr)
		if !isSelector || !strings.HasPrefix(function.Sel.Name, "SetupWithManager") {
			return true
		}
		name := taking.code(taking.source, function.X)
		name, _, _ = strings.Cut(strings.TrimLeft(name, "(&"), "{")
		names = append(names, name)
		return true
	})
	return names
}

// reportForgotten reports reconcilers that main does not set up.
func (taking *extraction) reportForgotten() {
	text := ""
	for _, source := range taking.of.sources {
		text += string(source.text)
	}
	for _, one := range taking.reconcilers() {
		if !strings.Contains(text, one.name) {
			taking.report.note("%s: %s is not set up by %s, so it is not in the plugin", taking.place(one.at), one.name, taking.place(taking.created.Pos()))
		}
	}
}
