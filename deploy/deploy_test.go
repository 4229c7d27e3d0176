// Package deploy checks the files for operators. It contains only tests.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool returns the path of a program, or "" where it is not installed: its check is then left out.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Logf("%s is not installed: its checks are left out", name)
	}
	return path
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a program and fails the test with what it prints if it fails.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
}

// systemd accepts the unit, and rates its exposure at most 2.0. make packages-check verifies it with the program
// and the manual page that it names.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze")
	if analyze == "" {
		return
	}
	unit := filepath.Join(t.TempDir(), "agentsignal.service")
	text := strings.Replace(read(t, "systemd/agentsignal.service"), "/usr/bin/agentsignal", "/bin/true", 1)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, analyze, "verify", "--man=no", unit)
	run(t, analyze, "security", "--offline=true", "--threshold=20", unit)
}
