package redistest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// User is the user of Redis by whom the service connects in tests. It has the rights of this user in
// deploy/redis/users.acl, so that a test fails if the service needs another one.
const User = "agentsignal"

// aclFile is where the rights of User are, below the root of the module.
const aclFile = "deploy/redis/users.acl"

// userArgs returns the arguments of a server that has User, who needs no password.
func userArgs(tb testing.TB) []string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(root(tb), aclFile))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "user" && words[1] == User {
			return slices.Concat([]string{"--user", User, "nopass"}, words[2:])
		}
	}
	tb.Fatalf("%s has no user %s", aclFile, User)
	return nil
}

// root returns the root of the module, which is above the directory of the test.
func root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	tb.Fatalf("no module is above this directory: %v", err)
	return ""
}
