package redistest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// RunInProcess runs the tests of the calling package again with the store inside a process,
// which serves where no redis-server is installed. except lists, by reason, the tests that
// cannot pass there, or that do not concern it. It fails if fewer than minPassed tests pass.
func RunInProcess(t *testing.T, minPassed int, except map[string][]string) {
	t.Helper()
	out, err := exec.Command(os.Args[0], "-test.list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	skipped := []string{"^" + t.Name() + "$"}
	for _, names := range except {
		for _, name := range names {
			skipped = append(skipped, "^"+name+"$")
			if !strings.Contains(name, "*") && !slices.Contains(known, name) {
				t.Errorf("%s is not a test of this package", name)
			}
		}
	}
	suite := exec.Command(os.Args[0], "-test.run", "^Test", "-test.skip", strings.Join(skipped, "|"), "-test.v")
	suite.Env = append(os.Environ(), Variable+"="+InProcess)
	out, err = suite.CombinedOutput()
	passed := strings.Count(string(out), "\n--- PASS: ")
	if err != nil {
		noise := regexp.MustCompile("^=== |--- PASS|level=")
		for line := range strings.Lines(string(out)) {
			if !noise.MatchString(line) {
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
		t.Fatalf("%v; %d tests passed. List a test here if only a server process can pass it", err, passed)
	}
	if passed < minPassed {
		t.Errorf("only %d tests were run", passed)
	}
}
