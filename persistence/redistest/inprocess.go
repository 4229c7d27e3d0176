package redistest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// RunInProcess runs the tests of the calling package once more with the store inside a
// process, which serves where no redis-server is installed. except has, by their reason,
// the tests which that does not pass, or which have nothing to do with it. It fails if
// fewer than least were run.
func RunInProcess(t *testing.T, except map[string][]string, least int) {
	t.Helper()
	out, err := exec.Command(os.Args[0], "-test.list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	var skipped []string
	for _, names := range except {
		for _, name := range names {
			skipped = append(skipped, "^"+name+"$")
			if !strings.Contains(name, "*") && !slices.Contains(known, name) {
				t.Errorf("%s is no test of this package", name)
			}
		}
	}
	suite := exec.Command(os.Args[0], "-test.run", "^Test", "-test.skip", strings.Join(skipped, "|"), "-test.v")
	suite.Env = append(os.Environ(), Variable+"="+InProcess)
	out, err = suite.CombinedOutput()
	passed := strings.Count(string(out), "\n--- PASS: ")
	if err != nil {
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") && !strings.Contains(line, "level=") {
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
		t.Fatalf("%v; %d tests passed. A test that needs what only a server process can do is to be listed", err, passed)
	}
	if passed < least {
		t.Errorf("only %d tests were run", passed)
	}
}
