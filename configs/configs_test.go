package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExampleHasEveryKeyAtItsDefault(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	want, err := Default().YAML()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var keys strings.Builder
	for line := range strings.Lines(string(raw)) {
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		value, _, _ := strings.Cut(line, " #")
		keys.WriteString(strings.TrimRight(value, " \n") + "\n")
	}
	if diff := cmp.Diff(string(want), keys.String()); diff != "" {
		t.Errorf("config.example.yaml differs from the defaults (-default +example):\n%s", diff)
	}
	got, err := Load("config.example.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got, cmp.Comparer(func(a, b []string) bool { return len(a) == 0 && len(b) == 0 }),
		cmp.Comparer(func(a, b map[string]string) bool { return len(a) == 0 && len(b) == 0 })); diff != "" {
		t.Errorf("the example does not load as the defaults:\n%s", diff)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestASourceThatIsNotGivenIsTheDefault, and is marked as such.
func TestASourceThatIsNotGivenIsTheDefault(t *testing.T) {
	t.Parallel()
	empty, given := write(t, "c.yaml", "market:\n  speed: 10\n"), write(t, "c.yaml", "market:\n  source: simulated\n")
	for _, c := range []struct {
		file, variable, want string
		byDefault            bool
	}{
		{"", "", "simulated", true},
		{empty, "", "simulated", true},
		{given, "", "simulated", false},
		{"", "AGENTSIGNAL_MARKET_SOURCE=simulated", "simulated", false},
		{given, "AGENTSIGNAL_MARKET_SOURCE=binance", "binance", false},
	} {
		got, err := Load(c.file, []string{c.variable})
		if err != nil || got.Market.Source != c.want || got.Market.SourceByDefault != c.byDefault {
			t.Errorf("%+v: %q, by default %t, %v", c, got.Market.Source, got.Market.SourceByDefault, err)
		}
	}
}

func TestLaterLayersWin(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "http:\n  addr: ':1'\nruns:\n  timeout: 5s\nmarket:\n  speed: 10\n")
	secret := write(t, "url", "redis://one:6379\n")
	c, err := Load(file, []string{"AGENTSIGNAL_HTTP_ADDR=:2", "AGENTSIGNAL_REDIS_URL_FILE=" + secret,
		"AGENTSIGNAL_DASHBOARD_QUEUE_BYTES=64KiB", "AGENTSIGNAL_HTTP_CORS_ORIGINS=https://a.example,https://b.example",
		"HOME=/x"})
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Addr != ":2" || time.Duration(c.Runs.Timeout) != 5*time.Second || c.Market.Speed != 10 ||
		c.Redis.URL != "redis://one:6379" ||
		c.Dashboard.QueueBytes != 65536 || len(c.HTTP.CORSOrigins) != 2 || c.Lease != Default().Lease {
		t.Errorf("got %+v", c)
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "partitions: -1\nruns:\n  max_queued: 0\nauth:\n  registration: maybe\n")
	_, err := Load(file, []string{"AGENTSIGNAL_RATE_LIMITS=1/s", "AGENTSIGNAL_LEASE_FILE=/does/not/exist",
		"AGENTSIGNAL_MARKET_SPEED=fast", "AGENTSIGNAL_RUNS_TIMEOUT=soon"})
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, want := range []string{"partitions: ", "runs.max_queued: ", "auth.registration: ",
		"AGENTSIGNAL_RATE_LIMITS is not a setting", "AGENTSIGNAL_LEASE_FILE",
		"AGENTSIGNAL_MARKET_SPEED: ", "AGENTSIGNAL_RUNS_TIMEOUT: ", `"soon" is not a duration`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestAllFaultsOfAFileAreReported(t *testing.T) {
	t.Parallel()
	_, err := Load(write(t, "c.yaml",
		"http:\n  adr: ':1'\nruns:\n  timeout: soon\nlease: [1s]\ndashboard:\n  queue_bytes: big\n"+
			"partitions: 1025\n"), nil)
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, want := range []string{"line 2: http.adr is not a setting: did you mean http.addr?",
		`line 4: runs.timeout: "soon" is not a duration`,
		"line 5: lease: must be a single value", `line 7: dashboard.queue_bytes: "big" is not a size`,
		"partitions: must be 1 to 1024, or 0 for the number of the installation"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"misspelt key":   "http:\n  adr: ':1'\n",
		"not YAML":       "http: [",
		"two documents":  "partitions: 1\n---\npartitions: 2\n",
		"a bad duration": "lease: 5\n",
		"a wrong type":   "partitions: many\n",
	} {
		if _, err := Load(write(t, "c.yaml", text), nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Load("/does/not/exist.yaml", nil); err == nil {
		t.Error("a missing file: accepted")
	}
}

func TestClusterNeedsSharedSecrets(t *testing.T) {
	t.Parallel()
	_, err := Load("", []string{"AGENTSIGNAL_CLUSTER=true"})
	for _, key := range []string{"auth.jwt_keys", "security.encryption_keys", "security.record_keys", "redis.url"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not required: %v", key, err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Redis.URL = "redis://user:hunter2@host:1"
	c.Auth.JWTKeys, c.Security.EncryptionKeys, c.Email.SMTPURL = "k:hunter2", "k:hunter2", "smtp://user:hunter2@host"
	c.Security.RecordKeys = "PRIVATE+KEY+hunter2"
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), "***") {
		t.Errorf("printed:\n%s", text)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("http:\n  addr: ':1'\n", "5s", "1MiB")
	f.Add("a: &a [*a]", "-1h", "9999999999999GiB")
	f.Fuzz(func(t *testing.T, text, duration, size string) {
		c := Default()
		if fromYAML(&c, []byte(text)) == nil {
			c.Validate()
		}
		var d Duration
		if d.UnmarshalText([]byte(duration)) == nil {
			again, _ := d.MarshalText()
			var e Duration
			if err := e.UnmarshalText(again); err != nil || e != d {
				t.Errorf("%q is written as %q: %v", duration, again, err)
			}
		}
		var b Bytes
		if b.UnmarshalText([]byte(size)) == nil {
			again, _ := b.MarshalText()
			var e Bytes
			if err := e.UnmarshalText(again); err != nil || e != b {
				t.Errorf("%q is written as %q: %v", size, again, err)
			}
		}
	})
}
