package redistest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// Deny changes the rights of User: commands that the service needs may then be refused.
func (s *Server) Deny(rules ...string) {
	s.tb.Helper()
	s.denied = true
	if err := s.Client().ACLSetUser(context.Background(), User, rules...).Err(); err != nil {
		s.tb.Fatalf("change rights: %v", err)
	}
}

// checkUser fails the test if the server has refused User something, except after Deny.
func (s *Server) checkUser() {
	if s.denied || s.cmd == nil {
		return
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1, DialTimeout: time.Second})
	defer c.Close()
	refused, _ := c.ACLLog(context.Background(), maxRefused).Result() // none without an answer
	for _, r := range refused {
		// The library sends it by sentinels; Redis 7.0, where no right to it can be given, does not know it.
		if r.Username == User && r.Object != "client|setinfo" {
			s.tb.Errorf("%s of deploy/redis/users.acl is refused the %s %q", User, r.Reason, r.Object)
		}
	}
}

// maxRefused is how many refusals checkUser reads.
const maxRefused = 128
