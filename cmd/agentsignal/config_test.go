package main

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

func TestConfigIsCheckedAndPrinted(t *testing.T) {
	t.Parallel()
	key := "main:" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	write := func(text string) commandtest.Operator {
		return operator(t, "--config", commandtest.Written(t, text))
	}
	good := write("partitions: 32\nredis:\n  url: redis://user:hush@example.com:6379\nauth:\n  jwt_keys: " + key +
		"\nruns:\n  timeout: 10s\n")
	if out := good.Do("config", "check"); !strings.Contains(out, "valid") {
		t.Errorf("config check prints %q", out)
	}
	out := good.Do("config", "print")
	for _, want := range []string{"partitions: 32\n", "timeout: 10s\n", "url: '***'\n", "jwt_keys: '***'\n",
		"reads: 3000/m\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("config print does not contain %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "hush") || strings.Contains(out, "MDEy") {
		t.Errorf("config print shows a secret:\n%s", out)
	}
	if _, err := write(strings.ReplaceAll(out, "'***'", "''")).Try("", "config", "check"); err != nil {
		t.Errorf("what config print wrote is not valid: %v", err)
	}
	// All faults at once.
	bad := write("partitions: 1025\nhttp:\n  addr: nowhere\nauth:\n  registration: maybe\n" +
		"  jwt_keys: a:b\nredis:\n  url: http://x\n" +
		"market:\n  source: crystal ball\nrate_limit:\n  runs: many\n  reads: 1/y\n" +
		"agents:\n  disabled: [oracle]\ncontent:\n  chat_url: ftp://x\n")
	_, err := bad.Try("", "config", "check")
	for _, want := range []string{"partitions", "http.addr", "auth.registration", "auth.jwt_keys", "redis.url",
		"market.source", "rate_limit.runs",
		"rate_limit.reads", "agents.disabled", "content.chat_url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("config check does not report %s: %v", want, err)
		}
	}
	bad.Fails("partitions", "serve")
	write("partition: 5\n").Fails("line 1", "config", "check")
	operator(t, "--config", filepath.Join(t.TempDir(), "none.yaml")).Fails("none.yaml", "config", "print")
}

func TestVersionIsPrinted(t *testing.T) {
	t.Parallel()
	if out := operator(t).Do("version"); !strings.HasPrefix(out, "agentsignal "+service.Version+" (commit ") {
		t.Errorf("version prints %q", out)
	}
	operator(t).Fails(`no command "dance"`, "dance")
	operator(t).Fails("no flag --dance", "version", "--dance")
}
