// Package commandtest is shared by the tests of commands: it runs commands, reads their
// output and waits for conditions.
package commandtest

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/configs"
)

// WaitLimit limits every wait for a condition. It suffices for a busy machine.
const WaitLimit = 5 * time.Minute

// Main runs the tests of a package, independent of the settings in the environment and of profiles, and returns the
// exit code. Eight run at once: most of them wait for something. TestMain calls it.
func Main(m *testing.M) int {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, configs.Prefix) {
			os.Unsetenv(name)
		}
	}
	config, err := emptyConfig()
	if err != nil {
		panic("make an empty configuration: " + err.Error())
	}
	defer os.RemoveAll(config)
	os.Setenv("XDG_CONFIG_HOME", config)
	flag.Parse()
	if name := "test.parallel"; flag.Lookup(name).Value.String() == flag.Lookup(name).DefValue {
		flag.Set(name, "8")
	}
	return m.Run()
}

// MainUnlessShort is Main for tests that take long: with -short none of them runs.
func MainUnlessShort(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		fmt.Println("left out by -short")
		return 0
	}
	return Main(m)
}

// emptyConfig makes a directory for files of the user. It only stops the go command, which some tests run, from
// counting its uses there: it may still write when the directory is removed.
func emptyConfig() (dir string, err error) {
	dir, err = os.MkdirTemp("", "agentsignal-test-")
	if err != nil {
		return "", err
	}
	telemetry := filepath.Join(dir, "go", "telemetry")
	if err := os.MkdirAll(telemetry, 0o700); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600)
}

// Must ends the test if err is not nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Eventually waits until ok returns true. It asks less often the longer it takes: many tests wait at once, and most of
// them ask by requests.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(WaitLimit)
	for pause := 5 * time.Millisecond; !ok(); pause = min(pause*5/4, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: did not happen within %s", what, WaitLimit)
		}
		time.Sleep(pause)
	}
}

// Written returns the path of a new file with the text.
func Written(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "file")
	Must(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// codeSpan matches a text between backquotes, which may go on in the next line.
var codeSpan = regexp.MustCompile("`([^`]+)`")

// Runbook returns what deploy/RUNBOOK.md has between backquotes: commands, expressions, settings, and more; root is
// the path of the repository.
func Runbook(tb testing.TB, root string) (spans []string) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/RUNBOOK.md"))
	Must(tb, err)
	for _, m := range codeSpan.FindAllStringSubmatch(string(text), -1) {
		spans = append(spans, strings.Join(strings.Fields(m[1]), " "))
	}
	return spans
}

// Documented returns the lines of code blocks in the documents and pages for users; root is the
// path of the repository.
func Documented(tb testing.TB, root string) []string {
	tb.Helper()
	var lines []string
	for _, file := range []string{"README.md", "deploy/USING.md", "deploy/NUMBERS.md", "deploy/WEBHOOKS.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		Must(tb, err)
		code := false
		for line := range strings.Lines(string(text)) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "```"):
				code = !code
			case code && len(lines) > 0 && strings.HasSuffix(lines[len(lines)-1], `\`):
				lines[len(lines)-1] = strings.TrimSuffix(lines[len(lines)-1], `\`) + line
			case code:
				lines = append(lines, line)
			}
		}
	}
	const from, to = "<pre><code>", "</code></pre>"
	for _, file := range []string{"start.html", "agent.html"} {
		page, err := os.ReadFile(filepath.Join(root, "http/pages/docs", file))
		Must(tb, err)
		for _, part := range strings.Split(string(page), from)[1:] {
			block, _, _ := strings.Cut(part, to)
			lines = append(lines, strings.Split(strings.TrimSpace(html.UnescapeString(block)), "\n")...)
		}
	}
	return lines
}
