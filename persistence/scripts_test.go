package persistence

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestEveryScriptIsChecked fails if a script could be run that storetest.Main does not check.
func TestEveryScriptIsChecked(t *testing.T) {
	t.Parallel()
	embedded := regexp.MustCompile(`(?m)^//go:embed scripts$`)
	own := regexp.MustCompile(`Script\.Eval\(`)
	other := regexp.MustCompile(`redis\.NewScript\(|\.(Eval|EvalRO|ScriptLoad|FCall|FunctionLoad)\(`)
	packages, scripts := 0, 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasSuffix(path, ".lua"):
			scripts++
			if !strings.Contains(path, "/scripts/") && filepath.Base(path) != "declared_keys.lua" &&
				!strings.HasPrefix(path, "scripts") {
				t.Errorf("%s is not in a folder named scripts, from which redisclient.Script reads", path)
			}
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir := filepath.Dir(path)
			if other.Match(own.ReplaceAll(text, nil)) && dir != "../persistence/redisclient" &&
				dir != "../persistence/storetest" {
				t.Errorf("%s runs a script that redisclient.Script has not made", path)
			}
			if embedded.Match(text) {
				packages++
				tests, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
				checked := false
				for _, test := range tests {
					text, _ := os.ReadFile(test)
					checked = checked || bytes.Contains(text, []byte("storetest.Main(m)"))
				}
				if !checked {
					t.Errorf("the tests of %s do not run its scripts by storetest.Main", dir)
				}
			}
		}
		return nil
	})
	if err != nil || packages < 9 || scripts < 40 {
		t.Errorf("%d packages with %d scripts: %v", packages, scripts, err)
	}
}

func TestUndeclaredKeysAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	prefix, err := os.ReadFile("storetest/declared_keys.lua")
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		`return redis.call('SET', KEYS[1], 1)`:                                     "",
		`return redis.call('SET', KEYS[1] .. 'x', 1)`:                              "SET of ax",
		`return redis.pcall('DEL', KEYS[1], 'b')`:                                  "DEL of b",
		`return redis.call('GETSET', KEYS[1], 1)`:                                  "does not know",
		`return redis.pcall('XINFO', 'STREAM', 'b')`:                               "XINFO of b",
		`return redis.call('XREAD', 'STREAMS', KEYS[1], '0')`:                      "does not know",
		`return redis.pcall('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'b', '>')`: "XREADGROUP of b",
		`return redis.call('TIME')[1]`:                                             "",
	} {
		err := server.Client().Eval(t.Context(), string(prefix)+script, []string{"a"}).Err()
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", script, got, want)
			}
		} else if want != "" {
			t.Errorf("%s was carried out, want %q", script, want)
		}
	}
}
