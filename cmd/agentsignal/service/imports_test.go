package service

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

const module = "github.com/agentsignal/agentsignal/"

// mayImport lists which of our packages each may import: it is the map of the service. A
// name that ends in /... stands for all below it; the first row that fits a package counts.
// The test fails for a row, or a name in it, that the code no longer needs.
var mayImport = []struct {
	pkg     string
	imports []string
}{
	{"actors", nil},
	{"actors/signal", nil},
	{"actors/backoff", nil},
	{"actors/heap", nil},
	{"actors/panics", nil},
	{"actors/tasks", nil},
	{"actors/signal/...", []string{"actors/signal"}},
	{"actors/spelling", nil},
	{"actors/jsonobject", nil},
	{"actors/strategy", []string{"actors/signal"}},
	{"actors/engine", nil},
	{"actors/backtest", []string{"actors/signal", "actors/strategy"}},
	{"actors/backtest/barfile", []string{"actors/signal", "actors/strategy"}},
	{"actors/audit", []string{"actors/signal", "actors/strategy", "actors/backtest", "actors/market",
		"actors/market/assets", "actors/record", "actors/engine", "actors/ownership"}},
	{"actors/scorecard", []string{"actors/signal", "actors/strategy", "actors/backtest"}},
	{"actors/publicrecord", []string{"actors/signal", "actors/strategy", "actors/backtest", "actors/catalogue", "actors/record",
		"actors/record/verify", "actors/scorecard"}},
	{"actors/chartalert", []string{"actors/signal"}},
	{"actors/template", nil},
	{"actors/content", []string{"actors/template"}},
	{"actors/weather", []string{"actors/signal", "actors/market/source/fetch"}},
	{"actors/agent", []string{"actors/weather", "actors/content", "actors/signal", "actors/strategy", "actors/engine",
		"actors/market", "actors/backtest"}},
	{"actors/agent/asked", []string{"actors/signal", "actors/engine", "actors/market", "actors/webhook/sender"}},
	{"actors/outcomes", []string{"actors/signal", "actors/strategy"}},
	{"actors/ownership", []string{"actors/signal", "actors/engine"}},
	{"actors/lifecycle", []string{"actors/signal", "actors/strategy", "actors/engine", "actors/market/alerts",
		"actors/ownership"}},
	{"actors/partition", []string{"actors/signal", "actors/engine", "actors/ownership"}},
	{"actors/record", []string{"actors/signal", "actors/strategy", "actors/record/verify"}},
	// A stranger must be able to read and copy it: it needs nothing of this module.
	{"actors/record/verify", nil},
	{"actors/checkpoints", []string{"actors/signal", "actors/engine", "actors/ownership", "actors/record",
		"actors/record/verify"}},
	{"actors/schedule", []string{"actors/signal", "actors/engine", "actors/ownership"}},
	{"actors/webhook", []string{"actors/signal", "actors/engine", "actors/ownership", "actors/webhook/..."}},
	{"actors/market/markettest", []string{"actors/engine", "actors/signal", "actors/market/source/fetch"}},
	{"actors/market/alerts", []string{"actors/signal", "actors/strategy", "actors/engine", "actors/market/prices",
		"actors/market/sessions"}},
	{"actors/market/assets", nil},
	{"actors/market/prices", []string{"actors/signal", "actors/strategy", "actors/market/assets"}},
	{"actors/market/sessions", []string{"actors/signal", "actors/market/assets", "actors/market/prices"}},
	{"actors/market/feeder", []string{"actors/signal", "actors/market/..."}},
	{"actors/market/simulated", []string{"actors/signal", "actors/strategy", "actors/market/assets",
		"actors/market/prices"}},
	{"actors/market/source/fetch", nil},
	{"actors/market/source", []string{"actors/signal", "actors/strategy", "actors/market/assets",
		"actors/market/prices", "actors/market/sessions", "actors/market/simulated", "actors/market/source/..."}},
	{"actors/market/source/...", []string{"actors/signal", "actors/market/source/fetch"}},
	{"actors/market", []string{"actors/signal", "actors/strategy", "actors/engine", "actors/market/..."}},
	{"actors/webhook/keyring", nil},
	{"actors/webhook/signature", nil},
	{"actors/webhook/guard", []string{"actors/signal"}},
	{"actors/webhook/sender", []string{"actors/signal", "actors/webhook/guard", "actors/webhook/signature"}},
	{"actors/webhook/mail", nil},
	{"actors/webhook/message", []string{"actors/signal", "actors/market/assets", "actors/template"}},
	{"actors/...", []string{"actors/signal", "actors/engine"}},
	{"persistence/redistest", nil},
	{"persistence/storetest", []string{"actors/signal", "actors/record", "actors/record/verify", "persistence/codec",
		"persistence/redisclient"}},
	{"persistence/codec", []string{"actors/signal"}},
	{"persistence/redisclient", []string{"actors/signal", "persistence/codec"}},
	{"persistence/datadir", []string{"persistence/redisclient"}},
	{"persistence/eventlog", []string{"actors/signal", "persistence/codec", "persistence/redisclient"}},
	{"persistence/deliveries", []string{"actors/signal", "persistence/codec", "persistence/eventlog",
		"persistence/redisclient"}},
	{"persistence/jobs", []string{"actors/signal", "persistence/codec", "persistence/eventlog",
		"persistence/redisclient"}},
	{"persistence/market", []string{"actors/signal", "persistence/codec", "persistence/eventlog",
		"persistence/redisclient"}},
	{"persistence/outcomes", []string{"actors/signal", "persistence/codec", "persistence/redisclient"}},
	{"persistence/agents", []string{"actors/signal", "persistence/eventlog", "persistence/redisclient"}},
	{"persistence/schedules", []string{"actors/signal", "persistence/codec", "persistence/eventlog",
		"persistence/redisclient"}},
	{"persistence/audits", []string{"actors/signal", "persistence/codec", "persistence/redisclient"}},
	{"persistence/leaves", []string{"actors/signal", "actors/record", "actors/record/verify", "persistence/codec",
		"persistence/eventlog", "persistence/redisclient"}},
	{"persistence/credentials", []string{"actors/signal", "persistence/redisclient"}},
	{"persistence/signals", []string{"actors/signal", "persistence/codec", "persistence/eventlog",
		"persistence/redisclient"}},
	{"persistence/requests", []string{"actors/signal", "persistence/codec", "persistence/eventlog",
		"persistence/redisclient", "persistence/signals"}},
	{"persistence/backup", []string{"actors/signal", "actors/record", "persistence", "persistence/agents", "persistence/codec",
		"persistence/deliveries",
		"persistence/eventlog", "persistence/redisclient"}},
	{"persistence", []string{"actors/signal", "actors/record", "persistence/..."}},
	{"http/apitest", nil},
	{"http/client", []string{"actors/market/assets"}},
	{"http/request", nil},
	{"http/credentials", []string{"actors/signal", "http/request"}},
	{"http/limits", nil},
	{"http/tracing", nil},
	{"http/console", nil},
	{"http/mcp", []string{"actors/signal"}},
	{"http/pages", []string{"actors/template"}},
	{"http/recordpage", []string{"actors/signal", "actors/backtest", "actors/catalogue", "actors/publicrecord", "actors/record",
		"actors/record/verify", "actors/scorecard", "actors/template"}},
	// What it asks, for the types of questions and answers.
	{"http", []string{"actors/signal", "actors/agent", "actors/agent/asked", "actors/audit", "actors/backtest",
		"actors/catalogue", "actors/chartalert",
		"actors/dashboard", "actors/scorecard", "actors/market", "actors/record", "actors/record/verify",
		"actors/webhook/message", "http/console", "http/credentials", "http/limits", "http/mcp", "http/pages",
		"http/recordpage", "http/request", "http/tracing"}},
	{"configs", nil},
	{"cmd/agentsignal/command", nil},
	{"cmd/agentsignal/remote", []string{"http/client", "cmd/agentsignal/command"}},
	{"cmd/agentsignal/terminal", []string{"actors/chartalert", "actors/market/assets", "http/client", "cmd/agentsignal/command",
		"cmd/agentsignal/remote"}},
	{"cmd/agentsignal/commandtest", []string{"configs", "persistence/redistest"}},
	{"cmd/agentsignal/receive", []string{"actors/signal", "actors/webhook", "actors/webhook/...",
		"cmd/agentsignal/command", "cmd/agentsignal/remote", "http/client"}},
	{"cmd/agentsignal/export", []string{"actors/signal", "actors/strategy", "actors/backtest", "actors/scorecard",
		"actors/record", "actors/record/verify", "cmd/agentsignal/command", "http/client"}},
	{"cmd/agentsignal/service", []string{"actors/...", "configs", "http", "http/...", "persistence", "persistence/...",
		"cmd/agentsignal/command", "cmd/agentsignal/remote"}},
	{"cmd/agentsignal/doctor", []string{"actors/signal", "actors/market/simulated", "actors/market/source", "actors/weather",
		"actors/webhook/mail", "configs", "persistence/datadir", "persistence/leaves", "persistence/redisclient",
		"cmd/agentsignal/command", "cmd/agentsignal/remote", "cmd/agentsignal/service", "http/client"}},
	{"cmd/agentsignal-bench/barelog", nil},
	{"cmd/agentsignal/e2e", []string{"..."}}, // starts the service for the tests below it
	{"cmd/agentsignal/e2e/...", nil},
	{"cmd/agentsignal-bench", []string{"actors/...", "http/credentials", "persistence", "persistence/...",
		"cmd/agentsignal/command", "cmd/agentsignal/service", "cmd/agentsignal-bench/barelog"}},
	{"cmd/agentsignal", []string{"..."}},
	{"deploy", nil}, // only tests
	// Examples to copy: they must not need this module.
	{"deploy/webhooks/go", nil},
	{"deploy/clients/go", nil},
}

// onlyIn lists the only packages that may import a library.
var onlyIn = map[string][]string{
	"github.com/asynkron/protoactor-go": {"actors/engine"},
	"github.com/redis/go-redis": {"persistence", "persistence/...", "cmd/agentsignal-bench/barelog",
		"cmd/agentsignal/e2e"},
	"github.com/alicebob/miniredis":   {"persistence/datadir", "persistence/redistest"},
	"github.com/gorilla/mux":          {"http"},
	"github.com/modelcontextprotocol": {"http/mcp"},
	"github.com/golang-jwt/jwt":       {"http/credentials"},
	"net/http": {"http", "http/...", "actors/backoff", "actors/webhook/sender", "actors/webhook/signature",
		"actors/content", "actors/weather", "actors/market/...", "cmd/...", "deploy/webhooks/go",
		"deploy/clients/go"},
	"os/signal": {"cmd/..."},
}

// forAll are packages that all others may import.
var forAll = []string{
	"actors/backoff",
	"actors/heap",
	"actors/jsonobject",
	"actors/panics",
	"actors/signal/cluster",
	"actors/signal/credential",
	"actors/signal/delivery",
	"actors/signal/marketdata",
	"actors/spelling",
	"actors/tasks",
}

// forTests are packages that tests alone import.
var forTests = []string{"persistence/redistest", "persistence/storetest", "http/apitest",
	"actors/market/markettest", "cmd/agentsignal/commandtest", "cmd/agentsignal/e2e"}

// pure are packages of values in, values out: no clock that is not given, no
// random source, no input or output.
var pure = map[string][]string{
	"actors/strategy": {"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "net/http", "log", "log/slog", "io/fs",
		"database/sql", "syscall"},
	"actors/backtest": {"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "net/http", "log", "log/slog", "io/fs",
		"database/sql", "syscall"},
	"actors/record/verify": {"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "net/http", "log", "log/slog",
		"io/fs", "syscall"},
	"actors/chartalert": {"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "net/http", "log", "log/slog", "io/fs",
		"syscall"},
	"actors/signal": {"os", "net", "net/http", "log", "log/slog", "syscall"},
}

// listed is what go list prints of a package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Standard     bool
}

// packages returns all packages of the module.
func packages(tb testing.TB) []listed {
	tb.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			tb.Fatalf("list packages: %v\n%s", err, e.Stderr)
		}
		tb.Fatalf("list packages: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			tb.Fatalf("read list of packages: %v", err)
		}
		all = append(all, p)
	}
}

// fits reports whether pattern stands for the package.
func fits(pattern, pkg string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(pkg, prefix)
	}
	return pattern == pkg
}

// used records the entries of the tables above that the packages need.
type used map[string]bool

// allows reports whether one of the patterns of a table's entry stands for the package.
func (u used) allows(entry string, patterns []string, pkg string) bool {
	i := slices.IndexFunc(patterns, func(p string) bool { return fits(p, pkg) })
	if i < 0 {
		return false
	}
	u[entry+" "+patterns[i]] = true
	return true
}

// check fails the test for each pattern of an entry that allowed nothing.
func (u used) check(t *testing.T, entry string, patterns []string) {
	t.Helper()
	for _, p := range patterns {
		if !u[entry+" "+p] {
			t.Errorf("%s %s: nothing needs it, remove it", entry, p)
		}
	}
}

func TestPackagesImportInOneDirection(t *testing.T) {
	t.Parallel()
	u := used{}
	var rows []string
	for _, rule := range mayImport {
		rows = append(rows, rule.pkg)
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if !u.allows("row", rows, name) {
			t.Errorf("package %s stands in no row of the table: add what it may import", name)
			continue
		}
		rule := mayImport[slices.IndexFunc(rows, func(pattern string) bool { return fits(pattern, name) })]
		for _, imported := range p.Imports {
			if ours, ok := strings.CutPrefix(imported, module); ok {
				if !u.allows("forAll", forAll, ours) && !u.allows(rule.pkg+" imports", rule.imports, ours) {
					t.Errorf("%s imports %s", name, ours)
				}
				if slices.Contains(forTests, ours) && !slices.Contains(forTests, name) || ours == "cmd/agentsignal" {
					t.Errorf("%s imports %s, which is for tests, or a program", name, ours)
				}
			} else if host, _, _ := strings.Cut(imported, "/"); name == "actors/signal" &&
				strings.Contains(host, ".") && imported != "github.com/oklog/ulid/v2" {
				t.Errorf("%s imports %s, and needs the standard library only", name, imported)
			}
			for library, packages := range onlyIn {
				if (imported == library || strings.HasPrefix(imported, library+"/")) &&
					!u.allows(library+" in", packages, name) {
					t.Errorf("%s imports %s, which is for %s alone", name, imported, strings.Join(packages, ", "))
				}
			}
			if slices.Contains(pure[name], imported) {
				t.Errorf("%s imports %s, and must be pure", name, imported)
			}
		}
		// Tests below actors and http may use the real store, but no layer above it.
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			ours, ok := strings.CutPrefix(imported, module)
			u.allows("forTests", forTests, ours)
			if ok && strings.HasPrefix(name, "persistence") && strings.HasPrefix(ours, "http") {
				t.Errorf("a test of %s imports %s", name, ours)
			}
		}
	}
	u.check(t, "row", rows)
	u.check(t, "row", slices.Collect(maps.Keys(pure)))
	u.check(t, "forAll", forAll)
	u.check(t, "forTests", forTests)
	for _, rule := range mayImport {
		u.check(t, rule.pkg+" imports", rule.imports)
	}
	for library, packages := range onlyIn {
		u.check(t, library+" in", packages)
	}
}

// TestTheMapNamesFilesThatExist checks the files of actors/doc.go, below actors or the root.
func TestTheMapNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, "actors", "doc.go"))
	commandtest.Must(t, err)
	files := regexp.MustCompile(`[a-z_/]+/[a-z_]+\.go\b`).FindAllString(string(text), -1)
	if len(files) < 20 {
		t.Errorf("only %d files are named", len(files))
	}
	for _, file := range files {
		_, below := os.Stat(filepath.Join(root, "actors", file))
		if _, err := os.Stat(filepath.Join(root, file)); err != nil && below != nil {
			t.Errorf("%s does not exist", file)
		}
	}
}
