package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// installTypeScript packs the package for TypeScript, installs it in a folder as its users do, and returns both.
func installTypeScript(t *testing.T) (pkg, dir string) {
	t.Helper()
	interpreter(t, "node")
	interpreter(t, "npm")
	pkg, err := filepath.Abs(e2e.TypeScriptPackage(t))
	e2e.Must(t, err)
	dir = t.TempDir()
	npm := func(in string, args ...string) {
		t.Helper()
		args = append(args, "--ignore-scripts", "--offline", "--no-audit", "--no-fund", "--loglevel=error")
		cmd := exec.Command("npm", args...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm %s: %v\n%s", args[0], err, out)
		}
	}
	npm(pkg, "pack", "--pack-destination", dir)
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("it is packed as %q, %v", packed, err)
	}
	e2e.Must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"type":"module"}`), 0o600))
	npm(dir, "install", packed[0])
	return pkg, dir
}

// The package has what its users need, and nothing else.
func TestTypeScriptPackage(t *testing.T) {
	t.Parallel()
	_, dir := installTypeScript(t)
	root := filepath.Join(dir, "node_modules", "agentsignal")
	var files []string
	e2e.Must(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, root+"/"))
		}
		return err
	}))
	built := regexp.MustCompile(`^dist/[a-z]+\.(js|d\.ts)$`)
	others := slices.DeleteFunc(slices.Clone(files), built.MatchString)
	if want := []string{"LICENSE", "README.md", "package.json"}; !slices.Equal(others, want) {
		t.Errorf("besides what is built it has %q, want %q", others, want)
	}
	text, err := os.ReadFile(filepath.Join(root, "package.json"))
	e2e.Must(t, err)
	var p struct {
		Name, Version, License, Type string
		Private                      bool
		Engines, Dependencies        map[string]string
		Exports                      map[string]struct{ Types, Default string }
	}
	e2e.Must(t, json.Unmarshal(text, &p))
	if p.Name != "agentsignal" || p.Version == "" || p.License != "Apache-2.0" || p.Type != "module" || p.Private ||
		p.Engines["node"] == "" || len(p.Dependencies) > 0 {
		t.Errorf("it is described by %s", text)
	}
	for _, file := range []string{p.Exports["."].Types, p.Exports["."].Default} {
		if !slices.Contains(files, strings.TrimPrefix(file, "./")) {
			t.Errorf("it exports %s, which it does not have", file)
		}
	}
}

// TestTypeScriptClient runs the package in Node on a service, through a relay that cuts its connections: with the
// class WebSocket of Node, and with that of a package, as versions of Node without one need it.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	pkg, dir := installTypeScript(t)
	program, err := os.ReadFile("testdata/typescript/follow.mjs")
	e2e.Must(t, err)
	e2e.Must(t, os.WriteFile(filepath.Join(dir, "follow.mjs"), program, 0o600))
	for name, args := range map[string][]string{
		"Node":    nil,
		"package": {filepath.Join(pkg, "node_modules", "ws", "wrapper.mjs")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := e2e.Shared(t)
			trader, _ := s.Account(t)
			relay := newCutRelay(t, strings.TrimPrefix(s.URL, "http://"))
			p := startProgram(t, node(dir, append([]string{"follow.mjs", "http://" + relay.addr, trader.Token}, args...)...))
			if m := p.message("subscribed"); m["gap"] != false {
				t.Errorf("it begins with %v", m)
			}
			streamed := func(id any) { // each signal comes once and in order
				t.Helper()
				if got := p.message("signal.new")["data"].(map[string]any)["signal_id"]; got != id {
					t.Fatalf("the stream has %v, want %v", got, id)
				}
			}
			for range 2 {
				p.send("run BTC momentum once") // the key of both
				id := p.next("run").(map[string]any)["signal_id"]
				if id != trader.Signals("").Signals[0].ID || trader.Signals("").Total != 1 {
					t.Errorf("it has made %v", id)
				}
			}
			streamed(trader.Signals("").Signals[0].ID)
			for range 2 {
				relay.refuse(true)
				relay.cut()
				missed := []string{trader.Run("BTC", "momentum").ID, trader.Run("BTC", "momentum").ID}
				relay.refuse(false)
				m := p.message("subscribed")
				resumed := m["data"].(map[string]any)["resumed"].(map[string]any)
				if resumed["replayed"] != 2.0 || m["gap"] != false {
					t.Errorf("it resumes with %v", m)
				}
				for _, id := range missed {
					streamed(id)
				}
			}
			p.send("run BTC nosuch")
			if problem := p.next("problem").(map[string]any); problem["code"] != "invalid_request" {
				t.Errorf("a bad run has %v", problem)
			}
			for command, code := range map[string]string{
				"follow wrong BTC":                 "invalid_token",
				"follow " + trader.Token + " BTCC": "invalid_request",
			} {
				p.send(command)
				if problem := p.next("ended").(map[string]any); problem["code"] != code {
					t.Errorf("%s ends with %v", command, problem)
				}
			}
		})
	}
}

// node returns the command that runs a program in dir. Before Node 22 its WebSocket has to be asked for.
func node(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("node", append([]string{"--experimental-websocket", "--no-warnings"}, args...)...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// The example of the package's page prints what is open, and then what comes.
func TestTypeScriptExample(t *testing.T) {
	t.Parallel()
	_, dir := installTypeScript(t)
	page, err := os.ReadFile(filepath.Join(dir, "node_modules", "agentsignal", "README.md"))
	e2e.Must(t, err)
	e2e.Must(t, os.WriteFile(filepath.Join(dir, "example.mjs"), []byte(block(t, string(page), "js")), 0o600))
	s := e2e.Shared(t)
	trader, _ := s.Account(t)
	open := trader.Run("BTC", "momentum")
	var out e2e.Journal
	cmd := node(dir, "example.mjs")
	cmd.Env = append(os.Environ(), "AGENTSIGNAL_URL="+s.URL, "AGENTSIGNAL_API_KEY="+trader.Token)
	cmd.Stdout, cmd.Stderr = &out, &out
	e2e.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Blame(t)
	})
	e2e.Eventually(t, "it prints what is open", func() bool { return out.Line("open "+open.ID) != "" })
	var made []string
	e2e.Eventually(t, "it prints what comes", func() bool {
		made = append(made, trader.Run("BTC", "momentum").ID)
		return slices.ContainsFunc(made, func(id string) bool { return out.Line("new "+id) != "" })
	})
}
