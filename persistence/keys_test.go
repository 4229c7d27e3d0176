package persistence

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocListsEveryKey(t *testing.T) {
	t.Parallel()
	var made []string
	functions := map[string]ast.Expr{} // what they return
	for _, d := range parsed(t, "redisclient/keys.go").Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasSuffix(f.Name.Name, "Key") || tagOf[f.Name.Name] != "" {
			continue
		}
		result, ok := f.Body.List[len(f.Body.List)-1].(*ast.ReturnStmt)
		if !ok || len(result.Results) != 1 {
			t.Fatalf("%s does not end with the return of a key", f.Name)
		}
		functions[f.Name.Name] = result.Results[0]
	}
	for _, result := range functions {
		made = append(made, keyPattern(functions, result))
	}
	var table []string
	row := regexp.MustCompile(`(?m)^\t(\S+)\s+(?:stream|hash|string|zset|set)\s`)
	variable := regexp.MustCompile(`\b[A-Z]{2,}\b`)
	for _, m := range row.FindAllStringSubmatch(parsed(t, "doc.go").Doc.Text(), -1) {
		table = append(table, variable.ReplaceAllString(m[1], "*"))
	}
	slices.Sort(made)
	slices.Sort(table)
	if diff := cmp.Diff(made, table); diff != "" {
		t.Errorf("keys that keys.go makes (-) and those of the table in doc.go (+):\n%s", diff)
	}
}

// tagOf has the methods that begin keys of one hash tag, with its name in the table.
var tagOf = map[string]string{"PartitionKey": "{pNN}:", "authKey": "{auth}:", "marketKey": "{market}:"}

// keyPattern returns the key that an expression of keys.go makes, with * for what
// callers give it.
func keyPattern(functions map[string]ast.Expr, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return keyPattern(functions, e.X) + keyPattern(functions, e.Y)
	case *ast.CallExpr:
		f, _ := e.Fun.(*ast.SelectorExpr)
		if f != nil && tagOf[f.Sel.Name] != "" {
			return tagOf[f.Sel.Name] + keyPattern(functions, e.Args[len(e.Args)-1])
		}
		if f != nil && functions[f.Sel.Name] != nil {
			return keyPattern(functions, functions[f.Sel.Name])
		}
	}
	return "*"
}

// parsed returns a file of this package.
func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
