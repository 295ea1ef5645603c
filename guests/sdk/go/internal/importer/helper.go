package main

import (
	"go/ast"
	"strings"
)

// helper returns the function of the package main that a call passes the manager to, and that returns nothing or an
// error; nil if there is none. Its file is the second result.
func (taking *extraction) helper(call *ast.CallExpr) (*ast.FuncDecl, *source) {
	name, isName := call.Fun.(*ast.Ident)
	if !isName || !taking.mentions(call, taking.manager) {
		return nil, nil
	}
	for _, source := range taking.of.sources {
		for _, declaration := range source.Decls {
			function, isFunction := declaration.(*ast.FuncDecl)
			if !isFunction || !declares(declaration, name.Name) || function.Body == nil {
				continue
			}
			results := function.Type.Results
			isError := results.NumFields() == 1 && taking.code(source, results.List[0].Type) == "error"
			if (results.NumFields() == 0 || isError) && managerOf(function) != "" {
				return function, source
			}
		}
	}
	return nil, nil
}

// managerOf returns the name of the parameter that is a manager; empty if there is none.
func managerOf(function *ast.FuncDecl) string {
	for _, parameter := range function.Type.Params.List {
		selector, isSelector := parameter.Type.(*ast.SelectorExpr)
		if isSelector && selector.Sel.Name == "Manager" && len(parameter.Names) == 1 {
			return parameter.Names[0].Name
		}
	}
	return ""
}

// callsEmptyHelper says whether a statement calls a helper of which a plugin needs nothing. It copies the others.
func (taking *extraction) callsEmptyHelper(statement ast.Stmt) (does bool) {
	ast.Inspect(statement, func(node ast.Node) bool {
		if call, isCall := node.(*ast.CallExpr); isCall {
			if function, source := taking.helper(call); function != nil {
				does = does || !taking.copyHelper(function, source)
			}
		}
		return true
	})
	return does
}

// copyHelper copies the statements of a helper that a plugin needs, as a function that returns an error. It returns
// false if there are none.
func (taking *extraction) copyHelper(function *ast.FuncDecl, source *source) bool {
	name := function.Name.Name
	if isThere, isKnown := taking.copied.helpers[name]; isKnown {
		return isThere
	}
	// A helper that calls itself is not looked at twice.
	taking.copied.helpers[name] = true
	inner := &extraction{
		project: taking.project, of: taking.of, source: source, body: function.Body, manager: managerOf(function),
		report: taking.report, copied: taking.copied, locals: map[string]bool{},
	}
	for _, parameter := range function.Type.Params.List {
		for _, name := range parameter.Names {
			inner.parameters = append(inner.parameters, name.Name)
		}
	}
	statements := inner.extract()
	taking.copied.helpers[name] = len(statements) > 0
	taking.copied.names[name] = true
	if len(statements) == 0 {
		return false
	}
	if !strings.HasPrefix(statements[len(statements)-1], "return") {
		statements = append(statements, "return nil")
	}
	taking.copied.declarations = append(taking.copied.declarations,
		"func "+name+taking.code(source, function.Type.Params)+" error {\n"+strings.Join(statements, "\n")+"\n}")
	return true
}

// bareHelperCall returns the call of a statement that calls a helper whose original returns nothing; nil if it doesn't.
func (taking *extraction) bareHelperCall(statement ast.Stmt) *ast.CallExpr {
	var call *ast.CallExpr
	switch of := statement.(type) {
	case *ast.GoStmt:
		call = of.Call
	case *ast.ExprStmt:
		call, _ = of.X.(*ast.CallExpr)
	}
	if call == nil {
		return nil
	}
	if function, _ := taking.helper(call); function == nil {
		return nil
	}
	return call
}
