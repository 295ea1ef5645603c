package main

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// without returns a file without the imports that are removed, and without what mentions them: functions, fields, methods of
// interfaces, statements, cases, and elements of lists.
func without(text []byte, isRemoved func(path string) bool) ([]byte, error) {
	files := token.NewFileSet()
	// Comments would lose their places.
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, imported := range file.Imports {
		path, err := strconv.Unquote(imported.Path.Value)
		if err != nil {
			return nil, err
		}
		if isRemoved(path) {
			names[nameOf(imported, path)] = true
		}
	}
	pruning := pruning{names, isRemoved}
	file.Decls = slices.DeleteFunc(file.Decls, pruning.isGone)
	ast.Inspect(file, func(node ast.Node) bool {
		pruning.prune(node)
		return true
	})
	var short bytes.Buffer
	err = format.Node(&short, files, file)
	return short.Bytes(), err
}

// nameOf returns the name by which a file refers to an import.
func nameOf(imported *ast.ImportSpec, path string) string {
	if imported.Name != nil {
		return imported.Name.Name
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// pruning removes what mentions these names of packages.
type pruning struct {
	names     map[string]bool
	isRemoved func(path string) bool
}

// mentions says whether a node uses one of the packages.
func (pruning pruning) mentions(node ast.Node) (found bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		if selector, isSelector := node.(*ast.SelectorExpr); isSelector {
			from, isName := selector.X.(*ast.Ident)
			found = found || isName && pruning.names[from.Name]
		}
		return !found
	})
	return found
}

// isGone says whether a declaration is removed: a function whose parameters or results mention a package, or one that does
// nothing but return what mentions one.
func (pruning pruning) isGone(declaration ast.Decl) bool {
	function, isFunction := declaration.(*ast.FuncDecl)
	return isFunction && pruning.mentions(function.Type)
}

// prune removes parts of a node.
func (pruning pruning) prune(node ast.Node) {
	switch of := node.(type) {
	case *ast.GenDecl:
		of.Specs = slices.DeleteFunc(of.Specs, func(spec ast.Spec) bool {
			imported, isImport := spec.(*ast.ImportSpec)
			if !isImport {
				return false
			}
			path, err := strconv.Unquote(imported.Path.Value)
			return err == nil && pruning.isRemoved(path)
		})
	case *ast.FieldList:
		of.List = slices.DeleteFunc(of.List, func(field *ast.Field) bool { return pruning.mentions(field) })
	case *ast.CompositeLit:
		of.Elts = slices.DeleteFunc(of.Elts, func(element ast.Expr) bool { return pruning.mentions(element) })
	case *ast.BlockStmt:
		of.List = slices.DeleteFunc(of.List, pruning.isGoneStatement)
	}
}

// isGoneStatement says whether a statement of a block is removed: a case that mentions a package, or a statement without
// parts of its own that does.
func (pruning pruning) isGoneStatement(statement ast.Stmt) bool {
	switch of := statement.(type) {
	case *ast.CaseClause:
		return slices.ContainsFunc(of.List, func(one ast.Expr) bool { return pruning.mentions(one) })
	case *ast.AssignStmt, *ast.ExprStmt, *ast.ReturnStmt, *ast.DeclStmt:
		return pruning.mentions(of)
	}
	return false
}
