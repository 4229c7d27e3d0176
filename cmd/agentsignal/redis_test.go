package main

import (
	"path/filepath"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A command that cannot use Redis says what to do to an operator, who can change the settings.
func TestCommandsExplainRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	admin := server.Client().Conn() // stays logged in
	t.Cleanup(func() { admin.Close() })
	commandtest.Must(t, admin.ConfigSet(t.Context(), "requirepass", "right").Err())
	for _, args := range [][]string{
		{"account", "list"}, {"cluster", "status"}, {"backup", filepath.Join(t.TempDir(), "file")},
	} {
		operator(t, commandtest.StoreSettings(t, "redis://127.0.0.1:1", "")...).
			Fails("redis cannot be reached: start it, or correct the setting redis.url: ", args...)
		operator(t, commandtest.StoreSettings(t, server.URLFor("", "wrong"), "")...).
			Fails("redis refuses the user or the password of redis.url: ", args...)
	}
}
