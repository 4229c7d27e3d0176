package configs

import (
	"strings"
	"testing"
	"time"
)

// A fault of a file names the line, the key, the nearest one and what a value must be, and
// never a value, which may be a secret.
func TestFaultsOfAFileSpeakOfKeys(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, want string }{
		{"market:\n  sorce: binance\n", "line 2: market.sorce is not a setting: did you mean market.source?"},
		{"markt:\n  source: binance\n", "line 1: markt is not a setting: did you mean market?"},
		{"banana: 1\n", "line 1: banana is not a setting: see agentsignal config print"},
		{"redis:\n  url: [hunter2]\n", "line 2: redis.url: must be a single value, not a list or keys"},
		{"redis:\n  url: {a: hunter2}\n", "line 2: redis.url: must be a single value, not a list or keys"},
		{"partitions: hunter2\n", "line 1: partitions: must be a whole number"},
		{"partitions: 1.5\n", "line 1: partitions: must be a whole number"},
		{"\n\ncluster: maybe\n", "line 3: cluster: must be true or false"},
		{"costs:\n  crypto: fast\n", "line 2: costs.crypto: must be a number"},
		{"signals:\n  retention: 90 days\n", `line 2: signals.retention: "90 days" is not a duration: write 30s, 15m, 24h or 90d`},
		{"http:\n  cors_origins: hunter2\n", "line 2: http.cors_origins: must be a list: write [a, b]"},
		{"http:\n  cors_origins: [[hunter2]]\n", "line 2: http.cors_origins: must be a single value"},
		{"http: 8080\n", "line 1: http: must hold keys such as http.addr"},
		{"agents:\n  statuses: beta\n", "line 2: agents.statuses: must hold names with values"},
		{"agents:\n  statuses:\n    seo: [beta]\n", "line 3: agents.statuses.seo: must be a single value"},
		{"[a, b]\n", "line 1: the file: must hold keys such as http"},
		{"lease: 5s\nlease: 6s\n", "line 2: lease is given twice"},
		{"http:\n  addr: ':1'\n admin_addr: ':2'\n", "line 3: did not find expected key"},
		{"lease: 5s\nredis:\n  url: 'hunter2\n", "line 3: "},
		{"lease: 5s\nhttp: {addr: ':1',\n  admin_addr: ':2'}\nredis:\n\turl: x\n", "line 5: found character that cannot start any token"},
		{"redis:\n  url: *hunter2\n", "line 2: a value that begins with * must be in quotes"},
		{"lease: [5s\npartitions: 1\n", "line 1: "},
		{"lease: 5s\n---\nlease: 6s\n", "more than one document"},
	} {
		c := Default()
		err := fromYAML(&c, []byte(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %s", row.text, err, row.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "configs.") || strings.Contains(err.Error(), "!!")) {
			t.Errorf("%q: prints a value or a type: %v", row.text, err)
		}
	}
	for _, text := range []string{"", "# nothing\n", "http:\n", "base: &base\n", "signals: {retention: 90d}\nhttp: &h {addr: ':1'}\n", "http: {<<: {addr: ':1'}}\n"} {
		c := Default()
		if err := fromYAML(&c, []byte(text)); (err != nil) != strings.Contains(text, "base") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFaultsOfVariablesSpeakOfValues(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"HTTP_ADR=:1":                 "AGENTSIGNAL_HTTP_ADR is not a setting: did you mean AGENTSIGNAL_HTTP_ADDR?",
		"SIGNALS_RETENTION=long":      `AGENTSIGNAL_SIGNALS_RETENTION: "long" is not a duration: write 30s, 15m, 24h or 90d`,
		"PARTITIONS=hunter2":          "AGENTSIGNAL_PARTITIONS: must be a whole number",
		"CLUSTER=hunter2":             "AGENTSIGNAL_CLUSTER: must be true or false",
		"COSTS_CRYPTO=fast":           "AGENTSIGNAL_COSTS_CRYPTO: must be a number",
		"WEBHOOKS_RETRY_SCHEDULE=1,2": "is not a duration",
	} {
		_, err := Load("", []string{Prefix + variable})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "parse error") {
			t.Errorf("%s: %v, want %s", variable, err, want)
		}
	}
}

func TestDurationsInDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"90d": 2160 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "36500d": 876_000 * time.Hour, "-5s": -5 * time.Second} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %v, %v, want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"d", "-1d", "1.5d", "36501d", "1d-5h", "1d2d", "1dd", "90 d", "36500d2562047h", "12h1d", "90D"} {
		var d Duration
		if d.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%s is read as %v", text, time.Duration(d))
		}
	}
}

// Each rule about a value is held, at its edge.
func TestRulesOfValues(t *testing.T) {
	t.Parallel()
	for variable, key := range map[string]string{
		"HTTP_ADMIN_ADDR=nonsense":               "http.admin_addr",
		"HTTP_CORS_ORIGINS=https://me@a.example": "http.cors_origins",
		"HTTP_CORS_ORIGINS=https://a.example/":   "http.cors_origins",
		"HTTP_TRUSTED_PROXIES=10.0.0.1":          "http.trusted_proxies",
		"WEBHOOKS_WARN_AFTER=48h,24h":            "webhooks.warn_after",
		"WEBHOOKS_ALLOWED_NETWORKS=localhost":    "webhooks.allowed_networks",
		"WEBHOOKS_JITTER=0.51":                   "webhooks.jitter",
		"TLS_CERT_FILE=cert.pem":                 "tls",
		"TLS_KEY_FILE=key.pem":                   "tls",
		"EMAIL_SMTP_URL=smtp://h":                "email.from",
		"REDIS_WAIT_REPLICAS=6":                  "redis.wait_replicas",
		"PARTITIONS=0":                           "partitions",
		"MARKET_SPEED=3601":                      "market.speed",
		"COSTS_FX=1001":                          "costs.fx",
		"LEASE=0s":                               "lease",
		"LOG_LEVEL=loud":                         "log.level",
	} {
		if _, err := Load("", []string{Prefix + variable}); err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("%s: %v, want a fault of %s", variable, err, key)
		}
	}
	for _, variable := range []string{"PARTITIONS=64", "MARKET_SPEED=3600", "COSTS_FX=1000", "WEBHOOKS_JITTER=0.5", "REDIS_WAIT_REPLICAS=5",
		"WEBHOOKS_WARN_AFTER=24h,24h,48h", "HTTP_CORS_ORIGINS=https://a.example:8443", "HTTP_ADMIN_ADDR=:9090"} {
		if _, err := Load("", []string{Prefix + variable}); err != nil {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

// What several settings need together is said with what to write.
func TestFaultsOfSettingsSayWhatToWrite(t *testing.T) {
	t.Parallel()
	const keys = "must be given where cluster is true, since nodes share them: write NAME: and what openssl rand -base64 32 prints"
	for _, row := range [][2]string{
		{"CLUSTER=true", "auth.jwt_keys: " + keys},
		{"CLUSTER=true", "security.encryption_keys: " + keys},
		{"CLUSTER=true", "redis.url: must be given where cluster is true: write redis://host:6379/0"},
		{"TLS_CERT_FILE=c.pem", "tls: cert_file and key_file go together: give both, or neither"},
		{"EMAIL_SMTP_URL=smtp://h:25", "email.from: must be given where email.smtp_url is: write agentsignal@example.com"},
		{"REDIS_CA_FILE=ca.pem", "redis.ca_file: is for a redis.url that begins with rediss: give such a one, or leave redis.ca_file out"},
		{"EMAIL_FROM=nobody", "email.from: must be an email address such as agentsignal@example.com"},
	} {
		_, err := Load("", []string{Prefix + row[0]})
		if err == nil || !strings.Contains(err.Error(), row[1]) {
			t.Errorf("%s: %v, want %s", row[0], err, row[1])
		}
	}
	if _, err := ParseKeys("abc"); err == nil || err.Error() != "key 1 is not of the form name:base64: write NAME: and what openssl rand -base64 32 prints" {
		t.Errorf("keys: %v", err)
	}
}
