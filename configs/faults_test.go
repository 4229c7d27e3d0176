package configs

import (
	"strings"
	"testing"
	"time"
)

// TestFaultsOfAFile checks that a fault names the line, the key, the nearest key and what a
// value must be, and never the value, which may be a secret.
func TestFaultsOfAFile(t *testing.T) {
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
		{"signals:\n  retention: 90 days\n",
			`line 2: signals.retention: "90 days" is not a duration: write 30s, 15m, 24h or 90d`},
		{"http:\n  cors_origins: hunter2\n", "line 2: http.cors_origins: must be a list: write [a, b]"},
		{"http:\n  cors_origins: [[hunter2]]\n", "line 2: http.cors_origins: must be a single value"},
		{"http: 8080\n", "line 1: http: must hold keys such as http.addr"},
		{"[a, b]\n", "line 1: the file: must hold keys such as http"},
		{"lease: 5s\nlease: 6s\n", "line 2: lease is given twice"},
		{"http:\n  addr: ':1'\n admin_addr: ':2'\n", "line 3: did not find expected key"},
		{"lease: 5s\nredis:\n  url: 'hunter2\n", "line 3: "},
		{"lease: 5s\nhttp: {addr: ':1',\n  admin_addr: ':2'}\nredis:\n\turl: x\n",
			"line 5: found character that cannot start any token"},
		{"redis:\n  url: *hunter2\n", "line 2: a value that begins with * must be in quotes"},
		{"lease: [5s\npartitions: 1\n", "line 1: "},
		{"lease: 5s\n---\nlease: 6s\n", "more than one document"},
	} {
		c := Default()
		err := fromYAML(&c, []byte(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %s", row.text, err, row.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "configs.") ||
			strings.Contains(err.Error(), "!!")) {
			t.Errorf("%q: prints a value or a type: %v", row.text, err)
		}
	}
	for _, text := range []string{"", "# nothing\n", "http:\n", "base: &base\n",
		"signals: {retention: 90d}\nhttp: &h {addr: ':1'}\n", "http: {<<: {addr: ':1'}}\n"} {
		c := Default()
		if err := fromYAML(&c, []byte(text)); (err != nil) != strings.Contains(text, "base") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFaultsOfVariables(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"HTTP_ADR=:1": "AGENTSIGNAL_HTTP_ADR is not a setting: did you mean AGENTSIGNAL_HTTP_ADDR?",
		"SIGNALS_RETENTION=long": `AGENTSIGNAL_SIGNALS_RETENTION: "long" is not a duration: ` +
			`write 30s, 15m, 24h or 90d`,
		"PARTITIONS=hunter2":          "AGENTSIGNAL_PARTITIONS: must be a whole number",
		"CLUSTER=hunter2":             "AGENTSIGNAL_CLUSTER: must be true or false",
		"COSTS_CRYPTO=fast":           "AGENTSIGNAL_COSTS_CRYPTO: must be a number",
		"WEBHOOKS_RETRY_SCHEDULE=1,2": "is not a duration",
	} {
		_, err := Load("", []string{Prefix + variable})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "parse error") {
			t.Errorf("%s: %v, want %s", variable, err, want)
		}
	}
}

func TestDurationsInDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"90d": 2160 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0,
		"36500d": 876_000 * time.Hour, "-5s": -5 * time.Second} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %v, %v, want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"d", "-1d", "1.5d", "36501d", "1d-5h", "1d2d", "1dd", "90 d", "36500d2562047h",
		"12h1d", "90D"} {
		var d Duration
		if d.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%s is read as %v", text, time.Duration(d))
		}
	}
}

// faulty loads a variable, NAME=value without the prefix, and fails the test if the fault does
// not contain want.
func faulty(t *testing.T, variable, want string) {
	t.Helper()
	if _, err := Load("", []string{Prefix + variable}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %s", variable, err, want)
	}
}

// TestRulesOfValues checks each rule at its limit.
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
		"REDIS_WITHOUT_REPLICAS=wait":            "redis.without_replicas",
		"PARTITIONS=1025":                        "partitions",
		"MARKET_SPEED=3601":                      "market.speed",
		"COSTS_FX=1001":                          "costs.fx",
		"COSTS_SLIPPAGE=1.1":                     "costs.slippage",
		"LEASE=0s":                               "lease",
		"LOG_LEVEL=loud":                         "log.level",
	} {
		faulty(t, variable, key+": ")
	}
	for _, variable := range []string{"PARTITIONS=1024", "PARTITIONS=0", "MARKET_SPEED=3600", "COSTS_FX=1000",
		"WEBHOOKS_JITTER=0.5", "REDIS_WAIT_REPLICAS=5", "REDIS_WITHOUT_REPLICAS=accept", "REDIS_WITHOUT_REPLICAS=refuse",
		"WEBHOOKS_WARN_AFTER=24h,24h,48h", "HTTP_CORS_ORIGINS=https://a.example:8443", "HTTP_ADMIN_ADDR=:9090"} {
		if _, err := Load("", []string{Prefix + variable}); err != nil {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

// TestFaultsAcrossSettings checks that faults of combined settings state what to write.
func TestFaultsAcrossSettings(t *testing.T) {
	t.Parallel()
	const keys = "must be given where cluster is true, since nodes share them: write NAME: and what openssl rand " +
		"-base64 32 prints"
	for _, row := range [][2]string{
		{"CLUSTER=true", "auth.jwt_keys: " + keys},
		{"CLUSTER=true", "security.encryption_keys: " + keys},
		{"CLUSTER=true", "security.record_keys: must be given where cluster is true, the same for all nodes: " +
			"copy record.key of the first node"},
		{"CLUSTER=true", "redis.url: must be given where cluster is true: write redis://host:6379/0"},
		{"TLS_CERT_FILE=c.pem", "tls: cert_file and key_file go together: give both, or neither"},
		{"EMAIL_SMTP_URL=smtp://h:25",
			"email.from: must be given where email.smtp_url is: write agentsignal@example.com"},
		{"REDIS_CA_FILE=ca.pem", "redis.ca_file: is for a redis.url that begins with rediss: give such a one, or " +
			"leave redis.ca_file out"},
		{"EMAIL_FROM=no-address", "email.from: must be an email address such as agentsignal@example.com"},
	} {
		faulty(t, row[0], row[1])
	}
	if _, err := ParseKeys("abc"); err == nil ||
		err.Error() != "key 1 is not of the form name:base64: write NAME: and what openssl rand -base64 32 prints" {
		t.Errorf("keys: %v", err)
	}
}

// TestLimitsOfEverySetting sets each number and duration that must be positive to 0, and
// checks the ends of ranges that other tests do not reach.
func TestLimitsOfEverySetting(t *testing.T) {
	t.Parallel()
	keyOf := func(name string) string { return strings.ToLower(strings.Replace(name, "_", ".", 1)) }
	for _, name := range []string{"AUTH_ACCESS_TTL", "AUTH_REFRESH_TTL", "AUTH_SESSION_TTL",
		"AUTH_LOCK_WINDOW", "AUTH_LOCK_DURATION", "DASHBOARD_HEARTBEAT", "DASHBOARD_AUTH_TIMEOUT",
		"DASHBOARD_REPLAY_AGE", "RUNS_TIMEOUT", "RUNS_JOB_RETENTION", "SIGNALS_RETENTION", "WEBHOOKS_TIMEOUT",
		"WEBHOOKS_CONNECT_TIMEOUT", "WEBHOOKS_DISABLE_AFTER", "WEBHOOKS_RETENTION"} {
		faulty(t, name+"=0s", keyOf(name)+": must be more than 0")
		faulty(t, name+"=-1s", keyOf(name)+": must be more than 0")
	}
	for _, name := range []string{"HTTP_MAX_ANONYMOUS", "AUTH_LOCK_AFTER", "AUTH_MAX_SESSIONS", "LIMITS_READERS",
		"DASHBOARD_QUEUE_MESSAGES", "DASHBOARD_QUEUE_BYTES", "DASHBOARD_MAX_CONNECTIONS", "DASHBOARD_REPLAY_MESSAGES",
		"RUNS_MAX_CONCURRENT", "RUNS_MAX_QUEUED", "SIGNALS_MAX_OPEN", "WEBHOOKS_KEEP",
		"WEBHOOKS_MAX_PENDING", "WEBHOOKS_CONCURRENCY", "WEBHOOKS_HOST_CONCURRENCY", "WEBHOOKS_ACCOUNT_CONCURRENCY",
		"WEBHOOKS_IN_FLIGHT"} {
		faulty(t, name+"=0", keyOf(name)+": must be 1 or more")
	}
	for _, row := range [][2]string{
		{"WEBHOOKS_RETRY_SCHEDULE=1s,0s", "webhooks.retry_schedule: each must be more than 0"},
		{"WEBHOOKS_RETRY_SCHEDULE=" + strings.Repeat("1s,", 20) + "1s",
			"webhooks.retry_schedule: must have at most 20"},
		{"WEBHOOKS_WARN_AFTER=0s", "webhooks.warn_after: each must be more than 0"},
		{"WEBHOOKS_ORDER_WAIT=-1s", "webhooks.order_wait: must be 0s to 24h"},
		{"WEBHOOKS_ORDER_WAIT=24h1s", "webhooks.order_wait: must be 0s to 24h"},
		{"WEBHOOKS_JITTER=-0.1", "webhooks.jitter: must be 0 to 0.5"},
		{"REDIS_TIMEOUT=1s", "redis.timeout: must be more than 1s"},
		{"REDIS_WAIT_REPLICAS=-1", "redis.wait_replicas: must be 0 to 5"},
		{"MARKET_SPEED=0", "market.speed: must be 1 to 3600"},
		{"COSTS_CRYPTO=-1", "costs.crypto: must be 0 to 1000 basis points"},
		{"COSTS_STOCK=1001", "costs.stock: must be 0 to 1000 basis points"},
		{"COSTS_COMMODITY=1001", "costs.commodity: must be 0 to 1000 basis points"},
		{"WEATHER_SOURCE=stars", "weather.source: must be simulated or open_meteo"},
		{"WEATHER_FORECAST_URL=https://a.example/v1", "weather.forecast_url: must be scheme and host"},
		{"WEATHER_ARCHIVE_URL=a.example", "weather.archive_url: must be scheme and host"},
		{"HTTP_ADDR=8080", "http.addr: must be host:port or :port"},
		{"HTTP_ADDR=:http-nonsense", "http.addr: must be host:port or :port"},
		{"LOG_FORMAT=xml", "log.format: must be auto, json or text"},
		{"SHUTDOWN_DELAY=-1s", "shutdown.delay: must be 0 or more"},
	} {
		faulty(t, row[0], row[1])
	}
	if _, err := Load("", []string{Prefix + "WEATHER_FORECAST_URL=https://a.example/", Prefix +
		"WEBHOOKS_ORDER_WAIT=24h"}); err != nil {
		t.Errorf("values at their limits: %v", err)
	}
	c := Default()
	c.DataDir = ""
	if err := c.Validate(); err == nil || err.Error() != "data_dir: must not be empty" {
		t.Errorf("without a data directory: %v", err)
	}
}

func TestDefaultDataDirectory(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/agentsignal")
	if got := Default().DataDir; got != "/var/lib/agentsignal" {
		t.Errorf("under systemd: %q", got)
	}
	t.Setenv("STATE_DIRECTORY", "")
	if got := Default().DataDir; got != "data" {
		t.Errorf("elsewhere: %q", got)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{
		"0": 0, "65536": 65536, "64KiB": 64 << 10, "1 MiB": 1 << 20, "3GiB": 3 << 30,
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%s is %d, %v, want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "1MB", "64 kib", "KiB", "9999999999GiB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is parsed as %d", text, b)
		}
	}
	for b, want := range map[Bytes]string{0: "0", 1023: "1023", 1536: "1536", 2048: "2KiB", 3 << 20: "3MiB",
		1 << 30: "1GiB"} {
		if got, err := b.MarshalText(); err != nil || string(got) != want {
			t.Errorf("%d is written as %s, %v, want %s", int64(b), got, err, want)
		}
	}
}
