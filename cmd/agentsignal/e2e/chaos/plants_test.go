package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// plant is a damage to the product, which the checks must find.
type plant struct {
	name      string
	file      string // of the repository
	after     string // the text in it that the statement follows
	statement string
	fault     string // during which it shows
	want      string // what the checks find
}

var plants = []plant{
	{"a write of unknown outcome is acknowledged", "persistence/eventlog/log.go", "case r := <-o.Done:\n",
		"if f, ok := errors.AsType[*signal.Error](r.Err); ok && f.Kind == signal.KindUnavailable { r.Err = nil }",
		"kill -9 of Redis", "was acknowledged 1 times and is 0 times in the log"},
	{"a delivery succeeds unsent", "actors/webhook/sender/sender.go", "result := Result{At: r.At}\n",
		"if r.At.UnixMilli() % 4 == 0 { result.Status, result.Class = 200, ClassSuccess; return result }",
		"end of all connections to Redis", "was delivered under 0 event ids"},
	{"open signals are lost at a take-over", "actors/lifecycle/signals.go", "page = page[:0]\n\t\t\treturn ctx.Err()\n\t\t})\n",
		"page = nil", "kill -9 of a node", "is not closed"},
	{"a leaf is lost", "persistence/leaves/append.go", "r.entries = entries\n",
		"if len(entries) > 1 { entries = entries[1:] }", "end of all connections to Redis", "leaves"},
}

// TestPlants builds the program with all plants, lets one after another take effect, and none, and
// demands that the checks find it.
func TestPlants(t *testing.T) {
	if os.Getenv("CHAOS_FOR") == "" {
		t.Skip("part of make chaos: it takes minutes")
	}
	const variable = "CHAOS_PLANT"
	program := filepath.Join(t.TempDir(), "agentsignal")
	build := exec.Command("go", "build", "-race", "-overlay", overlay(t, variable), "-o", program,
		e2e.Repository+"/cmd/agentsignal")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	for _, p := range append(slices.Clone(plants), plant{name: "nothing", fault: "kill -9 of a node"}) {
		t.Run(p.name, func(t *testing.T) {
			t.Setenv(variable, p.name)
			c := newCluster(t, program, nodes, "server")
			faults, err := selected(c.faults, p.fault, false)
			commandtest.Must(t, err)
			l := newClients(t, c, accounts)
			defer l.begin(t)()
			l.endure(faults[0], rand.New(rand.NewPCG(1, 0)))
			found := l.settle("with the plant", unchanged())
			if got := strings.Join(found, "\n"); (p.want != "") != (got != "") || !strings.Contains(got, p.want) {
				t.Errorf("the checks find %.2000q, want %q", got, p.want)
			}
		})
	}
}

// unchanged returns a function that reports whether the same was wrong for a while, so that it is not only late.
func unchanged() func(found []string) bool {
	const while = 15 * time.Second // longer than the pause before any attempt of a delivery
	var last []string
	since := time.Now()
	return func(found []string) bool {
		slices.Sort(found)
		if !slices.Equal(found, last) {
			last, since = found, time.Now()
		}
		return time.Since(since) >= while
	}
}

// overlay writes a file for "go build -overlay" that adds all plants, of which each takes effect while the environment
// variable is its name.
func overlay(tb testing.TB, variable string) (file string) {
	tb.Helper()
	dir := tb.TempDir()
	var changed struct{ Replace map[string]string }
	changed.Replace = map[string]string{}
	for i, p := range plants {
		path, err := filepath.Abs(filepath.Join(e2e.Repository, p.file))
		commandtest.Must(tb, err)
		text, err := os.ReadFile(path)
		commandtest.Must(tb, err)
		before, rest, ok := strings.Cut(string(text), p.after)
		head, imports, imported := strings.Cut(before, "import (\n")
		if !ok || !imported || strings.Contains(rest, p.after) {
			tb.Fatalf("%s: want %q once, after the imports, for the plant %q", p.file, p.after, p.name)
		}
		planted := fmt.Sprintf("%simport (\nplanted \"os\"\n%s%sif planted.Getenv(%q) == %q { %s }\n%s",
			head, imports, p.after, variable, p.name, p.statement, rest)
		changed.Replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		commandtest.Must(tb, os.WriteFile(changed.Replace[path], []byte(planted), 0o600))
	}
	list, err := json.Marshal(changed)
	commandtest.Must(tb, err)
	file = filepath.Join(dir, "overlay.json")
	commandtest.Must(tb, os.WriteFile(file, list, 0o600))
	return file
}
