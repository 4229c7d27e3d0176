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

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

const (
	aWait    = "waits for what others end, and closes a channel"
	aCommand = "a panic ends a command, as it should"
)

// unguarded lists why a goroutine needs no guard, by file and function that starts it, or
// by a prefix of these.
var unguarded = map[string]string{
	"actors/agent/agents.go Drain":             aWait,
	"actors/agent/run.go recordAnnounced":      "cancels a context",
	"actors/dashboard/poller_linux.go begin":   "a poller guards each read",
	"actors/dashboard/hub.go NewHub":           "a flusher guards each order, connection and report",
	"actors/engine/system.go Shutdown":         aWait,
	"actors/engine/timer.go add":               "puts messages in mailboxes, and reads none",
	"actors/engine/work.go run":                "mailboxes and Context.Go recover",
	"actors/partition/partitions.go Leave":     aWait,
	"actors/tasks/tasks.go Close":              aWait,
	"actors/tasks/tasks.go Go":                 "each caller guards what it hands over",
	"actors/weather/service.go Run":            "slopes.run guards each round",
	"cmd/agentsignal/command/password.go":      aCommand,
	"cmd/agentsignal/doctor/doctor.go Run":     aCommand,
	"cmd/agentsignal/e2e/":                     "for tests",
	"cmd/agentsignal/main.go":                  aCommand,
	"cmd/agentsignal/receive/listen.go":        aCommand,
	"http/client/":                             "for commands and other programs",
	"http/connections.go Accept":               "writes a constant to a connection and closes it",
	"persistence/eventlog/log.go Close":        aWait,
	"persistence/redisclient/ready.go current": "Readiness.Check guards the probe",
	"persistence/redistest/":                   "for tests",
}

// recovers reports whether a function of the name recovers from panics.
func recovers(name string) bool {
	return slices.Contains([]string{"Guard", "GuardAt", "GuardEach", "Catch", "recover"}, name)
}

// A panic in a goroutine ends the process, unless something recovers: in what is started,
// or at most two calls below it in its package.
func TestGoroutinesAreGuarded(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, root := range []string{"actors", "http", "persistence", "cmd/agentsignal"} {
		err := filepath.WalkDir(filepath.Join("../../..", root), func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			for _, place := range startedBare(t, dir) {
				excused := false
				for prefix := range unguarded {
					if strings.HasPrefix(place, prefix) {
						used[prefix], excused = true, true
					}
				}
				if !excused {
					t.Errorf("%s starts a goroutine in which nothing recovers: see panics.Guard", place)
				}
			}
			return nil
		})
		commandtest.Must(t, err)
	}
	for place := range unguarded {
		if !used[place] {
			t.Errorf("%s starts nothing without a guard: remove it from the list", place)
		}
	}
}

// startedBare returns the file and function of every unguarded goroutine of a package.
func startedBare(t *testing.T, dir string) (places []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	commandtest.Must(t, err)
	functions, started := map[string][]*ast.FuncDecl{}, map[string][]ast.Node{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		commandtest.Must(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				functions[f.Name.Name] = append(functions[f.Name.Name], f)
				place := strings.TrimPrefix(filepath.ToSlash(path), "../../../") + " " + f.Name.Name
				started[place] = append(started[place], starts(f.Body)...)
			}
		}
	}
	// orCalls reports whether is holds for a name, or for one that the function of the name uses.
	orCalls := func(is func(string) bool) func(string) bool {
		return func(name string) bool {
			same := functions[name] // of several types, perhaps
			return is(name) || len(same) > 0 &&
				!slices.ContainsFunc(same, func(f *ast.FuncDecl) bool { return !names(f.Body, is) })
		}
	}
	isGuarded := orCalls(orCalls(recovers))
	for place, nodes := range started {
		if slices.ContainsFunc(nodes, func(n ast.Node) bool { return !names(n, isGuarded) }) {
			places = append(places, place)
		}
	}
	return places
}

// starts returns what is started in body: by go, by the Go of a group, by AfterFunc.
// Context.Go of an actor recovers; what it is given returns a message.
func starts(body ast.Node) (started []ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			started = append(started, n.Call)
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") {
				f := n.Args[len(n.Args)-1]
				if literal, ok := f.(*ast.FuncLit); !ok || literal.Type.Results == nil {
					started = append(started, f)
				}
			}
		}
		return true
	})
	return started
}

// names reports whether n contains a name for which is holds.
func names(n ast.Node, is func(name string) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			found = found || is(name.Name)
		}
		return !found
	})
	return found
}
