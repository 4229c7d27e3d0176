package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

// Load returns the defaults with the YAML file at path, if path is not empty, and the
// environment over them. environ has the form of os.Environ. The error names all faults
// at once.
func Load(path string, environ []string) (Config, error) {
	c := Default()
	var raw []byte
	if path != "" {
		var err error
		if raw, err = os.ReadFile(path); err != nil {
			return c, fmt.Errorf("read configuration: %w: give another by --config or AGENTSIGNAL_CONFIG", err)
		}
	}
	c.Market.Source = "" // what is not given then gets its default below
	faults := []error{fromYAML(&c, raw)}
	variables, err := fromFiles(environ)
	faults = append(faults, err, unknownVariables(variables))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		// One at a time, since errors of the library name the field, not the variable.
		if err := env.ParseWithOptions(&c, env.Options{Prefix: Prefix,
			Environment: map[string]string{name: variables[name]}}); err != nil {
			faults = append(faults, variableFault(name, err))
		}
	}
	c.Market.SourceByDefault = c.Market.Source == ""
	c.Market.Source = cmp.Or(c.Market.Source, Default().Market.Source)
	faults = append(faults, c.Validate())
	return c, errors.Join(faults...)
}

func fromYAML(c *Config, raw []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	var document yaml.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return syntaxFault(raw, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err != nil {
			return syntaxFault(raw, err)
		}
		return errors.New("configuration file: holds more than one document")
	}
	if err := fileFaults(&document); err != nil {
		// Decode what is valid, so that all faults are found at once.
		_ = document.Decode(c)
		return err
	}
	if err := document.Decode(c); err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	return nil
}

// fromFiles returns the variables of the service in environ. A name with the suffix _FILE
// stands for the one without, whose value is read from the file.
func fromFiles(environ []string) (map[string]string, error) {
	variables := map[string]string{}
	var faults []error
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, Prefix) {
			continue
		}
		if !isFileVariable(name) {
			variables[name] = value
			continue
		}
		raw, err := ReadSecretFile(value)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		variables[strings.TrimSuffix(name, "_FILE")] = strings.TrimRight(string(raw), "\r\n")
	}
	return variables, errors.Join(faults...)
}

// variableFault explains why the value of a variable is not valid.
func variableFault(name string, err error) error {
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return fmt.Errorf("%s: is not valid", name) // the error of the library may contain the value
	}
	switch parse.Type {
	case reflect.TypeFor[Duration](), reflect.TypeFor[Bytes](), reflect.TypeFor[[]Duration]():
		return fmt.Errorf("%s: %w", name, parse.Err)
	}
	return fmt.Errorf("%s: %s", name, mustBe(parse.Type, nil))
}

// notSettings are variables with the prefix of the service that are read elsewhere.
var notSettings = []string{Prefix + "CONFIG", Prefix + "API_KEY"}

func unknownVariables(variables map[string]string) error {
	known := knownVariables()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !known[name] && !slices.Contains(notSettings, name) {
			near := suggestion(name, slices.Sorted(maps.Keys(known)))
			faults = append(faults, fmt.Errorf("%s is not a setting%s", name, near))
		}
	}
	return errors.Join(faults...)
}

// knownVariables returns the names of all environment variables.
func knownVariables() map[string]bool {
	params, err := env.GetFieldParamsWithOptions(&Config{}, env.Options{Prefix: Prefix})
	if err != nil {
		panic("list settings: " + err.Error())
	}
	known := map[string]bool{}
	for _, p := range params {
		known[p.Key] = true
	}
	return known
}

// Advice on keys, in faults.
const (
	makeKey    = "write NAME: and what openssl rand -base64 32 prints"
	sharedKeys = "must be given where cluster is true, since nodes share them: " + makeKey
)

// Validate returns all faults in the values, each with its key. The packages that read
// them check the values that have a syntax of their own: redis.url, market.source,
// content.chat_url, email.smtp_url, the lists of keys and the rate limits.
func (c *Config) Validate() error {
	var faults []error
	check := func(ok bool, key, rule string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s: %s", key, rule))
		}
	}
	c.checkListeners(check)
	c.checkStore(check)
	c.checkPositive(check)
	c.checkWebhooks(check)
	c.checkSources(check)
	check(c.Auth.Registration == "open" || c.Auth.Registration == "closed",
		"auth.registration", "must be open or closed")
	check(c.Email.SMTPURL == "" || c.Email.From != "",
		"email.from", "must be given where email.smtp_url is: write agentsignal@example.com")
	if c.Email.From != "" {
		_, err := mail.ParseAddress(c.Email.From)
		check(err == nil, "email.from", "must be an email address such as agentsignal@example.com")
	}
	check(slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level),
		"log.level", "must be debug, info, warn or error")
	check(slices.Contains([]string{"auto", "json", "text"}, c.Log.Format),
		"log.format", "must be auto, json or text")
	check(c.Shutdown.Delay >= 0, "shutdown.delay", "must be 0 or more")
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// checker records a fault of a key, described by rule, unless ok.
type checker func(ok bool, key, rule string)

func (c *Config) checkListeners(check checker) {
	check(isHeader(c.HTTP.Robots), "http.robots", "must be a value of the header X-Robots-Tag, such as noindex, or empty")
	check(validAddr(c.HTTP.Addr), "http.addr", "must be host:port or :port")
	check(c.HTTP.AdminAddr == "" || validAddr(c.HTTP.AdminAddr), "http.admin_addr", "must be host:port or :port")
	for _, o := range c.HTTP.CORSOrigins {
		check(validOrigin(o), "http.cors_origins", fmt.Sprintf("%q is not an origin: write https://example.com", o))
	}
	check.networks("http.trusted_proxies", c.HTTP.TrustedProxies)
	check((c.TLS.CertFile == "") == (c.TLS.KeyFile == ""),
		"tls", "cert_file and key_file go together: give both, or neither")
}

func (check checker) networks(key string, list []string) {
	for _, n := range list {
		_, err := netip.ParsePrefix(n)
		check(err == nil, key, fmt.Sprintf("%q is not a network: write 10.0.0.0/8", n))
	}
}

// isHeader reports whether s may be the value of a header.
func isHeader(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// blockTime is how long a read of a stream waits in Redis. A test compares it with redisclient.BlockTimeout.
const blockTime = Duration(time.Second)

func (c *Config) checkStore(check checker) {
	check(c.DataDir != "", "data_dir", "must not be empty")
	check(c.Partitions >= 0 && c.Partitions <= 1024, "partitions",
		"must be 1 to 1024, or 0 for the number of the installation")
	check(c.Redis.WaitReplicas >= 0 && c.Redis.WaitReplicas <= 5, "redis.wait_replicas", "must be 0 to 5")
	check(c.Redis.Timeout > blockTime, "redis.timeout", "must be more than 1s: a read that waits for news takes as long")
	check(slices.Contains([]string{RefuseWithoutReplicas, AcceptWithoutReplicas}, c.Redis.WithoutReplicas),
		"redis.without_replicas", "must be refuse or accept")
	check(c.Redis.CAFile == "" || c.Redis.URL != "", "redis.ca_file",
		"is for a redis.url that begins with rediss: give such a one, or leave redis.ca_file out")
	check(!c.Cluster || c.Redis.URL != "", "redis.url",
		"must be given where cluster is true: write redis://host:6379/0")
	check(!c.Cluster || c.Auth.JWTKeys != "", "auth.jwt_keys", sharedKeys)
	check(!c.Cluster || c.Security.EncryptionKeys != "", "security.encryption_keys", sharedKeys)
	check(!c.Cluster || c.Security.RecordKeys != "", "security.record_keys",
		"must be given where cluster is true, the same for all nodes: copy record.key of the first node")
}

// minAuditEvery is the shortest time between two audits.
const minAuditEvery = Duration(time.Minute)

func (c *Config) checkPositive(check checker) {
	check(c.Record.Every >= Duration(time.Second), "record.every", "must be 1s or more")
	check(c.Audit.Every == 0 || c.Audit.Every >= minAuditEvery, "audit.every", "must be 1m or more, or 0 for never")
	for key, d := range map[string]Duration{
		"lease":                    c.Lease,
		"auth.access_ttl":          c.Auth.AccessTTL,
		"auth.refresh_ttl":         c.Auth.RefreshTTL,
		"auth.session_ttl":         c.Auth.SessionTTL,
		"auth.lock_window":         c.Auth.LockWindow,
		"auth.lock_duration":       c.Auth.LockDuration,
		"dashboard.heartbeat":      c.Dashboard.Heartbeat,
		"dashboard.auth_timeout":   c.Dashboard.AuthTimeout,
		"dashboard.replay_age":     c.Dashboard.ReplayAge,
		"runs.timeout":             c.Runs.Timeout,
		"runs.job_retention":       c.Runs.JobRetention,
		"signals.retention":        c.Signals.Retention,
		"webhooks.timeout":         c.Webhooks.Timeout,
		"webhooks.connect_timeout": c.Webhooks.ConnectTimeout,
		"webhooks.disable_after":   c.Webhooks.DisableAfter,
		"webhooks.retention":       c.Webhooks.Retention,
	} {
		check(d > 0, key, "must be more than 0")
	}
	for key, n := range map[string]int{
		"http.max_anonymous":           c.HTTP.MaxAnonymous,
		"http.max_exports":             c.HTTP.MaxExports,
		"http.max_account_exports":     c.HTTP.MaxAccountExports,
		"auth.lock_after":              c.Auth.LockAfter,
		"auth.max_sessions":            c.Auth.MaxSessions,
		"limits.readers":               c.Limits.Readers,
		"dashboard.queue_messages":     c.Dashboard.QueueMessages,
		"dashboard.queue_bytes":        int(c.Dashboard.QueueBytes),
		"dashboard.max_connections":    c.Dashboard.MaxConnections,
		"dashboard.replay_messages":    c.Dashboard.ReplayMessages,
		"runs.max_concurrent":          c.Runs.MaxConcurrent,
		"runs.max_queued":              c.Runs.MaxQueued,
		"signals.max_open":             c.Signals.MaxOpen,
		"webhooks.keep":                c.Webhooks.Keep,
		"webhooks.max_pending":         c.Webhooks.MaxPending,
		"webhooks.concurrency":         c.Webhooks.Concurrency,
		"webhooks.host_concurrency":    c.Webhooks.HostConcurrency,
		"webhooks.account_concurrency": c.Webhooks.AccountConcurrency,
		"webhooks.in_flight":           c.Webhooks.InFlight,
	} {
		check(n >= 1, key, "must be 1 or more")
	}
}

func (c *Config) checkWebhooks(check checker) {
	check(len(c.Webhooks.RetrySchedule) <= 20, "webhooks.retry_schedule", "must have at most 20 retries")
	for key, list := range map[string][]Duration{
		"webhooks.retry_schedule": c.Webhooks.RetrySchedule,
		"webhooks.warn_after":     c.Webhooks.WarnAfter,
	} {
		for _, d := range list {
			check(d > 0, key, "each must be more than 0")
		}
	}
	wait := time.Duration(c.Webhooks.OrderWait)
	check(wait >= 0 && wait <= 24*time.Hour, "webhooks.order_wait", "must be 0s to 24h")
	check(slices.IsSorted(c.Webhooks.WarnAfter), "webhooks.warn_after", "must ascend")
	check(c.Webhooks.Jitter >= 0 && c.Webhooks.Jitter <= 0.5, "webhooks.jitter", "must be 0 to 0.5")
	check.networks("webhooks.allowed_networks", c.Webhooks.AllowedNetworks)
}

func (c *Config) checkSources(check checker) {
	check(c.Market.Speed >= 1 && c.Market.Speed <= 3600, "market.speed", "must be 1 to 3600")
	check(c.Weather.Source == "simulated" || c.Weather.Source == "open_meteo",
		"weather.source", "must be simulated or open_meteo")
	for key, address := range map[string]string{
		"weather.forecast_url": c.Weather.ForecastURL,
		"weather.archive_url":  c.Weather.ArchiveURL,
	} {
		check(address == "" || validOrigin(strings.TrimSuffix(address, "/")),
			key, "must be scheme and host: write https://api.open-meteo.com")
	}
	for key, points := range map[string]float64{
		"costs.crypto":    c.Costs.Crypto,
		"costs.stock":     c.Costs.Stock,
		"costs.fx":        c.Costs.FX,
		"costs.commodity": c.Costs.Commodity,
	} {
		check(points >= 0 && points <= 1000, key, "must be 0 to 1000 basis points")
	}
	check(c.Costs.Slippage >= 0 && c.Costs.Slippage <= 1, "costs.slippage",
		"must be 0 to 1, in R: the distance from entry to stop")
}

func validAddr(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

func validOrigin(o string) bool {
	u, err := url.Parse(o)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		u.Host != "" && u.Path == "" && u.RawQuery == "" && u.User == nil
}

// YAML returns the settings as a configuration file, with secrets as ***.
func (c Config) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return b.Bytes(), nil
}
