package redistest

import (
	_ "embed"
	encoding "encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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

// clock returns the environment of a server, and makes its clock's file. It is nil without OwnClocks.
func (s *Server) clock() []string {
	library := os.Getenv(clockLibrary)
	if library == "" {
		return nil
	}
	if _, err := os.Stat(s.clockFile()); err != nil {
		s.SetClock(0)
	}
	return append(os.Environ(), "LD_PRELOAD="+library, clockFile+"="+s.clockFile())
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

// SetClock lets the server's clock be ahead of that of the machine, or behind if that is negative, from now on,
// also after a Restart: what TIME answers, the ids of entries and when keys expire. It needs OwnClocks.
func (s *Server) SetClock(ahead time.Duration) {
	s.tb.Helper()
	s.mustBeAProcess()
	f, err := os.OpenFile(s.clockFile(), os.O_CREATE|os.O_WRONLY, 0o600) // not truncated: the server has mapped it
	if err == nil {
		_, err = f.Write(encoding.NativeEndian.AppendUint64(nil, uint64(ahead)))
		f.Close()
	}
	if err != nil {
		s.tb.Fatalf("set the clock of a server: %v", err)
	}
}
