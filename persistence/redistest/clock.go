package redistest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// clockSource is a library that shifts the time of day of a process.
//
//go:embed testdata/clock.c
var clockSource []byte

// clockLibrary is the environment variable that names the built library, clockFile the one that names the file
// with a server's shift.
const (
	clockLibrary = "REDISTEST_CLOCK_LIBRARY"
	clockFile    = "REDISTEST_CLOCK"
)

// OwnClocks gives each server that is started until the test ends a clock of its own, which SetClock sets. It
// needs a C compiler, as the race detector does.
func OwnClocks(tb testing.TB) {
	tb.Helper()
	dir := tb.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		tb.Fatal(err)
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", library, source, "-ldl").CombinedOutput()
	if err != nil {
		tb.Fatalf("build the clock of servers with cc: %v\n%s", err, out)
	}
	tb.Setenv(clockLibrary, library)
}
