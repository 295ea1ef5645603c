package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// needed returns the definitions of the variables that statements use and that are made without the manager. It copies the declarations of the package that they use. Statements whose variables a plugin can't have
// are left out.
func (taking *extraction) needed(kept []ast.Stmt) (before []string, possible []ast.Stmt) {
	definitions := map[string]bool{}
	for _, name := range taking.parameters {
		definitions[name] = true
	}
	for _, statement := range kept {
		// The code of error checks is replaced, so that it needs nothing.
		texts, problem := taking.definitions(parsed(taking.render(statement)), definitions, nil)
		if problem != "" {
			taking.report.leave("%s: the statement is left out: %s", taking.place(statement.Pos()), problem)
			continue
		}
		before = append(before, texts...)
		possible = append(possible, statement)
	}
	return before, taking.withoutOrphans(possible)
}

// withoutOrphans removes statements that use variables of statements that were left out, and error checks after them.
func (taking *extraction) withoutOrphans(possible []ast.Stmt) []ast.Stmt {
	known := map[string]bool{}
	var kept []ast.Stmt
	for _, statement := range possible {
		isOrphan := false
		for _, name := range free(statement) {
			isOrphan = isOrphan || taking.locals[name] && !known[name] && !slices.Contains(defined(statement), name) && name != "err"
		}
		if isOrphan {
			continue
		}
		for _, name := range defined(statement) {
			known[name] = true
		}
		kept = append(kept, statement)
	}
	return kept
}

// definitions returns the definitions that a node needs and that are not in done. The second result says why there
// can't be one.
func (taking *extraction) definitions(node ast.Node, done map[string]bool, path []string) (texts []string, problem string) {
	for _, name := range free(node) {
		if name == taking.manager || taking.locals[name] || done[name] || slices.Contains(path, name) {
			continue
		}
		if name == "err" {
			if definesItself(node, name) {
				continue
			}
			done[name] = true
			texts = append(texts, "var err error")
			continue
		}
		if taking.isScheme(name) {
			done[name] = true
			texts = append(texts, name+" := "+taking.manager+".GetScheme()")
			continue
		}
		local := taking.localDefinition(name)
		if local == nil {
			if problem := taking.copyDeclaration(name); problem != "" {
				return nil, problem
			}
			continue
		}
		if reason := taking.refuses(local); reason != "" {
			return nil, "it needs `" + name + "`, and " + reason
		}
		inner, problem := taking.definitions(local, done, append(path, name))
		if problem != "" {
			return nil, problem
		}
		texts = append(texts, inner...)
		texts = append(texts, taking.define(name, local))
		for _, defined := range defined(local) {
			done[defined] = true
		}
	}
	return texts, ""
}

// parsed parses statements.
func parsed(text string) ast.Node {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+text+"\n}", 0)
	if err != nil {
		return &ast.BlockStmt{}
	}
	return file.Decls[0].(*ast.FuncDecl).Body
}

// isScheme says whether a variable is the scheme that main creates.
func (taking *extraction) isScheme(name string) bool {
	isNew := func(node ast.Node) bool { return taking.mentionsAny(node, "NewScheme") }
	if local := taking.localDefinition(name); local != nil {
		return isNew(local)
	}
	for _, source := range taking.of.sources {
		for _, declaration := range source.Decls {
			if general, isGeneral := declaration.(*ast.GenDecl); isGeneral {
				if spec := specOf(general, name); spec != nil {
					return isNew(spec)
				}
			}
		}
	}
	return false
}

// definesItself says whether a node defines a variable in its own scope: `if err := …`.
func definesItself(node ast.Node, name string) (does bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		if statement, isStatement := node.(ast.Stmt); isStatement && slices.Contains(defined(statement), name) {
			does = true
		}
		return true
	})
	return does
}

// localDefinition returns the statement of the function that defines a variable; nil if there is none.
func (taking *extraction) localDefinition(name string) ast.Stmt {
	for _, statement := range taking.body.List {
		if statement != taking.created && slices.Contains(defined(statement), name) {
			return statement
		}
	}
	return nil
}

// refuses returns why a plugin can't have a definition; empty if it can.
func (taking *extraction) refuses(node ast.Node) string {
	if name := taking.calls(node, func(name string) bool { return refused[name] != "" && name != "Add" }); name != "" {
		return refused[name]
	}
	return ""
}

// define returns the definition of a variable. A flag has its default, and the context of signals is the background's.
func (taking *extraction) define(name string, local ast.Stmt) string {
	if taking.mentionsAny(local, "SetupSignalHandler") {
		return name + " := context.Background()"
	}
	if assigned, isAssignment := local.(*ast.AssignStmt); isAssignment && len(assigned.Rhs) == 1 {
		if call, isCall := assigned.Rhs[0].(*ast.CallExpr); isCall && taking.isFlag(call) && len(call.Args) == 3 {
			taking.noteFlag(call.Args[0], call.Args[1])
			return name + " := new(" + taking.code(taking.source, call.Args[1]) + ")"
		}
	}
	text := taking.code(taking.source, local)
	for _, statement := range taking.body.List {
		called, isExpression := statement.(*ast.ExprStmt)
		if !isExpression {
			continue
		}
		call, isCall := called.X.(*ast.CallExpr)
		if !isCall || len(call.Args) != 4 || !strings.HasSuffix(functionName(call.Fun), "Var") {
			continue
		}
		pointer, isPointer := call.Args[0].(*ast.UnaryExpr)
		if !isPointer || pointer.Op != token.AND || taking.code(taking.source, pointer.X) != name {
			continue
		}
		taking.noteFlag(call.Args[1], call.Args[2])
		return text + "\n" + name + " = " + taking.code(taking.source, call.Args[2])
	}
	return text
}

func (taking *extraction) isFlag(call *ast.CallExpr) bool {
	function, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector {
		return false
	}
	from, isName := function.X.(*ast.Ident)
	return isName && (from.Name == "flag" || from.Name == "pflag")
}

func (taking *extraction) noteFlag(name, value ast.Expr) {
	flag := strings.Trim(taking.code(taking.source, name), `"`)
	taking.report.note("%s: a plugin has no flags: --%s has its default, %s; change it in main.go",
		taking.place(name.Pos()), flag, taking.code(taking.source, value))
}

// copyDeclaration copies a declaration of the package main that the plugin uses. The result says why it can't.
func (taking *extraction) copyDeclaration(name string) (problem string) {
	if taking.copied.names[name] {
		return ""
	}
	for _, source := range taking.of.sources {
		for _, declaration := range source.Decls {
			if !declares(declaration, name) {
				continue
			}
			if reason := taking.refuses(declaration); reason != "" {
				return "it needs `" + name + "`, and " + reason
			}
			if slices.ContainsFunc(free(declaration), taking.isScheme) {
				return "it needs `" + name + "`, which uses the scheme of the main function"
			}
			taking.copied.names[name] = true
			text := taking.code(source, declaration)
			if general, isGeneral := declaration.(*ast.GenDecl); isGeneral && general.Tok != token.IMPORT {
				spec := specOf(general, name)
				text = general.Tok.String() + " " + taking.code(source, spec)
				for _, inner := range free(spec) {
					if problem := taking.copyDeclaration(inner); problem != "" {
						return problem
					}
				}
			} else {
				for _, inner := range free(declaration) {
					if problem := taking.copyDeclaration(inner); problem != "" {
						return problem
					}
				}
			}
			taking.copied.declarations = append(taking.copied.declarations, text)
			return ""
		}
	}
	return ""
}

func declares(declaration ast.Decl, name string) bool {
	switch of := declaration.(type) {
	case *ast.FuncDecl:
		return of.Recv == nil && of.Name.Name == name
	case *ast.GenDecl:
		return specOf(of, name) != nil
	}
	return false
}

// specOf returns the part of a declaration that declares a name; nil if none does.
func specOf(general *ast.GenDecl, name string) ast.Spec {
	for _, spec := range general.Specs {
		switch of := spec.(type) {
		case *ast.ValueSpec:
			if slices.ContainsFunc(of.Names, func(one *ast.Ident) bool { return one.Name == name }) {
				return spec
			}
		case *ast.TypeSpec:
			if of.Name.Name == name {
				return spec
			}
		}
	}
	return nil
}
