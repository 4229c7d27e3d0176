package service

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A type has one responsibility, and its methods stand in one file, or in two where that reads better.
const (
	maxFiles   = 2  // with methods of a type
	maxMethods = 29 // of a type
)

// spread has the types that exceed a bound, each with the reason.
var spread = map[string]string{
	"persistence/redisclient.Keys": "has a method for the name of each key, in one file",
	"http/client.Client":           "is the API as programs call it, with a method for each operation",
	"cmd/agentsignal/e2e.Client":   "is the whole API as tests call it, with a file for each resource",
}

// home is where the methods of a type stand.
type home struct {
	files   map[string]bool
	methods int
}

// TestATypeHasOneHome finds types that are cut into files rather than into responsibilities.
func TestATypeHasOneHome(t *testing.T) {
	t.Parallel()
	homes := map[string]*home{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "node_modules", ".git", "build", "data"}, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return addHomes(homes, root, path)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range homes {
		exceeds := len(h.files) > maxFiles || h.methods > maxMethods
		if _, excepted := spread[name]; exceeds && !excepted {
			t.Errorf("%s has %d methods in %d files: split the type by responsibility", name, h.methods, len(h.files))
		} else if excepted && !exceeds {
			t.Errorf("%s needs no exception, remove it", name)
		}
	}
	for name := range spread {
		if homes[name] == nil {
			t.Errorf("there is no type %s", name)
		}
	}
}

// addHomes adds the methods of a file, unless it is generated.
func addHomes(homes map[string]*home, root, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return err
	}
	dir, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		method, ok := decl.(*ast.FuncDecl)
		if !ok || method.Recv == nil {
			continue
		}
		name := filepath.ToSlash(dir) + "." + receiver(method.Recv.List[0].Type)
		if homes[name] == nil {
			homes[name] = &home{files: map[string]bool{}}
		}
		homes[name].files[path] = true
		homes[name].methods++
	}
	return nil
}

// receiver returns the name of the type of a receiver, without its pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
