package operations

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// Faults of flags end a command with a sentence on what to do: no JSON, no
// address with a secret in it, and no second try.
func TestFaultsOfFlagsEndWithASentence(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	c, _ := s.Account(t)
	runner, _ := s.Account(t, "agents:run")
	key, wrong, weak := e2e.Written(t, c.Token), e2e.Written(t, e2e.UnknownKey()), e2e.Written(t, runner.Token)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("<html>hello"))
	}))
	t.Cleanup(strange.Close)
	// A port of a server that was closed may be given to that of another test.
	const nothing = "http://127.0.0.1:1"
	plainHost, secureHost := strings.TrimPrefix(s.URL, "http://"), strings.TrimPrefix(secure.URL, "https://")
	for _, row := range []struct{ want, args string }{
		{"nothing listens at", "tail --key-file " + key + " --url " + nothing},
		{"refuses the key (401)", "tail --url " + s.URL + " --key-file " + wrong},
		{`no channel "signals.new": did you mean signal.new? There are signal.new, `,
			"tail --channels signals.new --key-file " + key + " --url " + s.URL},
		{`the scheme "ftp" is not http, https, ws or wss`, "tail --key-file " + key + " --url ftp://localhost"},
		{"answers without TLS: give http://" + plainHost, "tail --key-file " + key + " --url https://" + plainHost},
		{"is a port for HTTPS: give https://" + secureHost, "tail --key-file " + key + " --url " + secureHost},
		{"is not trusted", "tail --key-file " + key + " --url " + secure.URL},
		{"no agentsignal answers", "tail --key-file " + key + " --url " + strange.URL},
		{"no such file", "tail --key-file " + filepath.Join(t.TempDir(), "none")},
		{"first line is empty", "tail --key-file " + e2e.Written(t, "\n")},
		{"copy it again", "tail --key-file " + e2e.Written(t, "ask_a b")},
		{"nothing listens at", "healthcheck --url " + nothing},
		{"is a port for HTTPS: give https://" + secureHost, "healthcheck --url " + secureHost},
		{"answers without TLS", "healthcheck --url https://" + plainHost},
		{"no agentsignal answers", "healthcheck --url " + strange.URL},
		{"refuses the key (401)", "webhook listen --addr 127.0.0.1:0 --register --url " + s.URL +
			" --key-file " + wrong},
		{"(403): the credential lacks the scope webhooks:manage",
			"webhook listen --addr 127.0.0.1:0 --register --url " + s.URL + " --key-file " + weak},
		{"nothing listens at", "webhook listen --addr 127.0.0.1:0 --register --url " + nothing +
			" --key-file " + key},
		{"--url: ", "webhook listen --addr 127.0.0.1:0 --register --url ftp://x --key-file " + key},
	} {
		_, err := e2e.Operator(t).Try("", strings.Fields(row.args)...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.args, err, row.want)
		} else if strings.ContainsAny(err.Error(), "{}\n") {
			t.Errorf("%s prints what is not for people: %v", row.args, err)
		}
	}
}
