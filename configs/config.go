// Package configs defines every setting of the service with its unit and default.
//
// Settings come from four layers, of which a later one overrides the earlier ones: the
// defaults, a YAML file, environment variables, flags. The name of a variable follows
// from the key in the file: runs.timeout is AGENTSIGNAL_RUNS_TIMEOUT, and
// AGENTSIGNAL_RUNS_TIMEOUT_FILE names a file that holds the value.
package configs

import "time"

// Prefix begins the name of each environment variable of the service.
const Prefix = "AGENTSIGNAL_"

// Config holds all settings. The zero value is not useful; see Default and Load.
type Config struct {
	HTTP HTTP `yaml:"http" envPrefix:"HTTP_"`
	// DataDir holds the files of this node: its ID, the secrets that it generated and the
	// files of a child Redis.
	DataDir string `yaml:"data_dir" env:"DATA_DIR"`
	// Cluster is set if several nodes share the Redis. Secrets must then be given. Live nodes
	// must agree in Lease, Market.Source, Market.Speed, Signals.Retention and
	// Redis.WaitReplicas, and have one of each kind of keys in common.
	Cluster bool `yaml:"cluster" env:"CLUSTER"`
	// Partitions is the number of partitions, 1 to 1024. It is fixed at the first start. 0 takes the
	// number of the installation, and for a new one 16, or 32 on a Redis Cluster.
	Partitions int `yaml:"partitions" env:"PARTITIONS"`
	// Lease is how long a partition stays with a node that does not respond.
	Lease Duration `yaml:"lease" env:"LEASE"`

	Redis     Redis     `yaml:"redis" envPrefix:"REDIS_"`
	RateLimit RateLimit `yaml:"rate_limit" envPrefix:"RATE_LIMIT_"`
	Auth      Auth      `yaml:"auth" envPrefix:"AUTH_"`
	Limits    Limits    `yaml:"limits" envPrefix:"LIMITS_"`
	Dashboard Dashboard `yaml:"dashboard" envPrefix:"DASHBOARD_"`
	Runs      Runs      `yaml:"runs" envPrefix:"RUNS_"`
	Agents    Agents    `yaml:"agents" envPrefix:"AGENTS_"`
	Content   Content   `yaml:"content" envPrefix:"CONTENT_"`
	Signals   Signals   `yaml:"signals" envPrefix:"SIGNALS_"`
	Market    Market    `yaml:"market" envPrefix:"MARKET_"`
	Weather   Weather   `yaml:"weather" envPrefix:"WEATHER_"`
	Costs     Costs     `yaml:"costs" envPrefix:"COSTS_"`
	Audit     Audit     `yaml:"audit" envPrefix:"AUDIT_"`
	Webhooks  Webhooks  `yaml:"webhooks" envPrefix:"WEBHOOKS_"`
	Email     Email     `yaml:"email" envPrefix:"EMAIL_"`
	Security  Security  `yaml:"security" envPrefix:"SECURITY_"`
	Record    Record    `yaml:"record" envPrefix:"RECORD_"`
	TLS       TLS       `yaml:"tls" envPrefix:"TLS_"`
	Log       Log       `yaml:"log" envPrefix:"LOG_"`
	Shutdown  Shutdown  `yaml:"shutdown" envPrefix:"SHUTDOWN_"`
}

// HTTP configures the listeners and the peers that are trusted.
type HTTP struct {
	Addr string `yaml:"addr" env:"ADDR"` // host:port of the API
	// AdminAddr, if set, serves /metrics and pprof instead of Addr.
	AdminAddr string `yaml:"admin_addr" env:"ADMIN_ADDR"`
	// CORSOrigins are the exact origins whose pages may call the API.
	CORSOrigins []string `yaml:"cors_origins" env:"CORS_ORIGINS"`
	// TrustedProxies are the networks whose X-Forwarded-For header is believed.
	TrustedProxies []string `yaml:"trusted_proxies" env:"TRUSTED_PROXIES"`
	// MaxAnonymous is the limit of open connections per client address on which no
	// credential has been accepted, including those of the stream. Proxies in
	// TrustedProxies are exempt.
	MaxAnonymous int `yaml:"max_anonymous" env:"MAX_ANONYMOUS"`
	// MaxExports is the limit of exports under way per process.
	MaxExports int `yaml:"max_exports" env:"MAX_EXPORTS"`
	// MaxAccountExports is the limit of exports under way per account and process.
	MaxAccountExports int `yaml:"max_account_exports" env:"MAX_ACCOUNT_EXPORTS"`
	// Robots is the header X-Robots-Tag of public records, which tells search engines what they
	// may do with them; empty: no header.
	Robots string `yaml:"robots" env:"ROBOTS"`
}

// Redis configures the connection to the store.
type Redis struct {
	// URL is redis://, unix://, redis+cluster:// or redis+sentinel://, or one of these
	// with rediss for TLS. Empty: a child server is started, or an in-process one if none
	// is installed.
	URL Secret `yaml:"url" env:"URL"`
	// CAFile, if set, holds in PEM the certificate authorities for a Redis with TLS, in
	// place of those of the system.
	CAFile string `yaml:"ca_file" env:"CA_FILE"`
	// MaxMemory is the memory limit of a child server; 0: half of the memory of the
	// machine or control group. A full server refuses writes and evicts nothing.
	MaxMemory Bytes `yaml:"max_memory" env:"MAX_MEMORY"`
	// WaitReplicas is the number of replicas that must have a change of signals,
	// webhooks, schedules, jobs or credentials before a client is answered. With 0 a
	// failover may lose changes and restore revoked credentials.
	WaitReplicas int `yaml:"wait_replicas" env:"WAIT_REPLICAS"`
	// WithoutReplicas is what becomes of changes while these replicas are missing: refuse
	// answers them with 503 before anything is written, accept acknowledges them although a
	// failover may lose them.
	WithoutReplicas string `yaml:"without_replicas" env:"WITHOUT_REPLICAS"`
	// Timeout is the limit for one command, half of which is for replicas. After it the
	// client is answered with 503.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT"`
}

// The values of Redis.WithoutReplicas.
const (
	RefuseWithoutReplicas = "refuse"
	AcceptWithoutReplicas = "accept"
)

// RateLimit holds a quota for each class of requests: NUMBER/s, /m or /h, or off.
type RateLimit struct {
	Reads         string `yaml:"reads" env:"READS"`
	Runs          string `yaml:"runs" env:"RUNS"`
	Intakes       string `yaml:"intakes" env:"INTAKES"` // alerts, per intake
	Writes        string `yaml:"writes" env:"WRITES"`
	Streams       string `yaml:"streams" env:"STREAMS"`
	Logins        string `yaml:"logins" env:"LOGINS"`
	Registrations string `yaml:"registrations" env:"REGISTRATIONS"`
	Sessions      string `yaml:"sessions" env:"SESSIONS"`
	Failures      string `yaml:"failures" env:"FAILURES"`
	Pages         string `yaml:"pages" env:"PAGES"`     // of public records, per address and process
	Scrapes       string `yaml:"scrapes" env:"SCRAPES"` // of /metrics, per address
}

// Auth configures accounts and sessions.
type Auth struct {
	// Registration is open if anyone may create an account over HTTP, otherwise closed.
	Registration string `yaml:"registration" env:"REGISTRATION"`
	// JWTKeys is a list of name:base64 of 32 bytes; the first signs, all verify. Empty: a
	// key is generated and kept in the data directory.
	JWTKeys Secret `yaml:"jwt_keys" env:"JWT_KEYS"`
	// AccessTTL is the lifetime of an access token, RefreshTTL that of an unused refresh
	// token, and SessionTTL that of a login however often it is refreshed.
	AccessTTL  Duration `yaml:"access_ttl" env:"ACCESS_TTL"`
	RefreshTTL Duration `yaml:"refresh_ttl" env:"REFRESH_TTL"`
	SessionTTL Duration `yaml:"session_ttl" env:"SESSION_TTL"`
	// MaxSessions is the limit of valid logins per account. A further login ends the one
	// that was not refreshed for longest.
	MaxSessions int `yaml:"max_sessions" env:"MAX_SESSIONS"`
	// LockAfter failed logins within LockWindow lock an email address for LockDuration,
	// and for longer if it happens again within a day.
	LockAfter    int      `yaml:"lock_after" env:"LOCK_AFTER"`
	LockWindow   Duration `yaml:"lock_window" env:"LOCK_WINDOW"`
	LockDuration Duration `yaml:"lock_duration" env:"LOCK_DURATION"`
}

// Limits holds limits of an account.
type Limits struct {
	// Readers is the limit of API keys with a view. Beside them an account has up to 100 other keys.
	Readers int `yaml:"readers" env:"READERS"`
}

// Dashboard limits the WebSocket connections.
type Dashboard struct {
	// Heartbeat is the interval of heartbeats on a connection.
	Heartbeat Duration `yaml:"heartbeat" env:"HEARTBEAT"`
	// AuthTimeout is the time within which a connection must authenticate.
	AuthTimeout Duration `yaml:"auth_timeout" env:"AUTH_TIMEOUT"`
	// QueueMessages and QueueBytes limit what may be queued for a slow reader before its
	// connection is closed.
	QueueMessages int   `yaml:"queue_messages" env:"QUEUE_MESSAGES"`
	QueueBytes    Bytes `yaml:"queue_bytes" env:"QUEUE_BYTES"`
	// MaxConnections is the limit per account and process.
	MaxConnections int `yaml:"max_connections" env:"MAX_CONNECTIONS"`
	// ReplayMessages and ReplayAge limit how far back a connection may resume.
	ReplayMessages int      `yaml:"replay_messages" env:"REPLAY_MESSAGES"`
	ReplayAge      Duration `yaml:"replay_age" env:"REPLAY_AGE"`
}

// Runs limits the runs of agents.
type Runs struct {
	// Timeout is the time after which a run fails.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT"`
	// MaxConcurrent is the limit of synchronous runs per account and process.
	MaxConcurrent int `yaml:"max_concurrent" env:"MAX_CONCURRENT"`
	// MaxQueued is the limit of waiting jobs per account.
	MaxQueued int `yaml:"max_queued" env:"MAX_QUEUED"`
	// JobRetention is how long an ended job is kept.
	JobRetention Duration `yaml:"job_retention" env:"JOB_RETENTION"`
}

// Agents changes the catalogue of agents.
type Agents struct {
	// Disabled lists agents that are hidden and cannot be run.
	Disabled []string `yaml:"disabled" env:"DISABLED"`
}

// Content configures an endpoint with OpenAI's chat protocol, which writes for the
// content agent. Without ChatURL, or if the endpoint fails, the built-in writer is used.
type Content struct {
	ChatURL   string `yaml:"chat_url" env:"CHAT_URL"` // http:// or https://, with or without /v1
	ChatKey   Secret `yaml:"chat_key" env:"CHAT_KEY"` // sent as bearer token; empty: no token
	ChatModel string `yaml:"chat_model" env:"CHAT_MODEL"`
}

// Signals configures the retention and limit of signals.
type Signals struct {
	// Retention is how long a signal is shown, from its creation.
	Retention Duration `yaml:"retention" env:"RETENTION"`
	// MaxOpen is the limit of open signals per account; further runs are refused.
	MaxOpen int `yaml:"max_open" env:"MAX_OPEN"`
}

// Market configures the sources of prices and news.
type Market struct {
	// Source is a list of simulated, stream, binance, coinbase and alpaca, tried in its
	// order for each asset.
	Source string `yaml:"source" env:"SOURCE"`
	// Speed is how many times as fast as the clock the simulated market runs.
	Speed int64 `yaml:"speed" env:"SPEED"`
	// BinanceURL, BinanceStreamURL (ws, wss), CoinbaseURL and AlpacaURL override the
	// addresses of the sources.
	BinanceURL       string `yaml:"binance_url" env:"BINANCE_URL"`
	BinanceStreamURL string `yaml:"binance_stream_url" env:"BINANCE_STREAM_URL"`
	CoinbaseURL      string `yaml:"coinbase_url" env:"COINBASE_URL"`
	AlpacaURL        string `yaml:"alpaca_url" env:"ALPACA_URL"`
	// AlpacaKey and AlpacaSecret are required if Source includes alpaca; AlpacaFeed is
	// iex or sip.
	AlpacaKey    Secret `yaml:"alpaca_key" env:"ALPACA_KEY"`
	AlpacaSecret Secret `yaml:"alpaca_secret" env:"ALPACA_SECRET"`
	AlpacaFeed   string `yaml:"alpaca_feed" env:"ALPACA_FEED"`
	// NewsFeeds are RSS or Atom feeds, each an address or address=WEIGHT with a weight of
	// 0 to 1.
	NewsFeeds []string `yaml:"news_feeds" env:"NEWS_FEEDS"`

	// SourceByDefault is no setting. Load sets it where neither the file nor the environment gives Source.
	SourceByDefault bool `yaml:"-"`
}

// Weather configures the source of forecasts.
type Weather struct {
	// Source is simulated or open_meteo.
	Source string `yaml:"source" env:"SOURCE"`
	// APIKey is a customer's key for open_meteo. Without one its free service is used,
	// which is not for commercial use.
	APIKey Secret `yaml:"api_key" env:"API_KEY"`
	// ForecastURL and ArchiveURL override the servers of open_meteo.
	ForecastURL string `yaml:"forecast_url" env:"FORECAST_URL"`
	ArchiveURL  string `yaml:"archive_url" env:"ARCHIVE_URL"`
}

// Costs holds the cost of an entry or an exit in basis points of the price, by the class
// of the asset, for backtests and the scorecard. Metals count as commodities; an unknown
// class costs as much as the most expensive one.
//
// Slippage is how far beyond the stop a signal closes in backtests on 1h, in R: a live one closes
// at the trade that passes the stop. Finer timeframes pay more, in a fixed proportion.
type Costs struct {
	Crypto    float64 `yaml:"crypto" env:"CRYPTO"`
	Stock     float64 `yaml:"stock" env:"STOCK"`
	FX        float64 `yaml:"fx" env:"FX"`
	Commodity float64 `yaml:"commodity" env:"COMMODITY"`
	Slippage  float64 `yaml:"slippage" env:"SLIPPAGE"`
}

// Audit configures how often all signals are recomputed from stored bars.
type Audit struct {
	Every Duration `yaml:"every" env:"EVERY"` // 0: never
}

// Webhooks configures deliveries to the endpoints of clients.
type Webhooks struct {
	// Timeout limits one request, ConnectTimeout the establishment of its connection.
	Timeout        Duration `yaml:"timeout" env:"TIMEOUT"`
	ConnectTimeout Duration `yaml:"connect_timeout" env:"CONNECT_TIMEOUT"`
	// RetrySchedule is the delay before each retry, from the end of the previous attempt.
	// Jitter, 0 to 0.5, is the share of it by which a retry may come earlier or later.
	RetrySchedule []Duration `yaml:"retry_schedule,flow" env:"RETRY_SCHEDULE"`
	Jitter        float64    `yaml:"jitter" env:"JITTER"`
	// DisableAfter is how long an endpoint may fail before it is disabled. WarnAfter
	// lists the times of failing after which its account is warned by mail, except those
	// that are not before DisableAfter.
	DisableAfter Duration   `yaml:"disable_after" env:"DISABLE_AFTER"`
	WarnAfter    []Duration `yaml:"warn_after,flow" env:"WARN_AFTER"`
	// AllowedNetworks are networks that may be delivered to although they are not public,
	// also without TLS. AllowHTTP allows any endpoint to be without TLS.
	AllowedNetworks []string `yaml:"allowed_networks" env:"ALLOWED_NETWORKS"`
	AllowHTTP       bool     `yaml:"allow_http" env:"ALLOW_HTTP"`
	// Retention is how long a delivery is kept after its end, and Keep how many of a
	// webhook at most.
	Retention Duration `yaml:"retention" env:"RETENTION"`
	Keep      int      `yaml:"keep" env:"KEEP"`
	// MaxPending is the limit of pending deliveries per account. Further ones are
	// dropped.
	MaxPending int `yaml:"max_pending" env:"MAX_PENDING"`
	// Challenge requires an endpoint to answer a challenge before its URL is registered.
	Challenge bool `yaml:"challenge" env:"CHALLENGE"`
	// Concurrency limits the requests in flight to an endpoint. The others are limits per
	// process: HostConcurrency to a host, at most half of them from one account,
	// AccountConcurrency from an account, InFlight in total.
	Concurrency        int `yaml:"concurrency" env:"CONCURRENCY"`
	HostConcurrency    int `yaml:"host_concurrency" env:"HOST_CONCURRENCY"`
	AccountConcurrency int `yaml:"account_concurrency" env:"ACCOUNT_CONCURRENCY"`
	InFlight           int `yaml:"in_flight" env:"IN_FLIGHT"`
	// OrderWait is how long the events of a signal wait for an earlier one of the same
	// signal that is retried; 0: they do not wait.
	OrderWait Duration `yaml:"order_wait" env:"ORDER_WAIT"`
}

// Email configures the sending of mails. Without SMTPURL they are only logged.
type Email struct {
	// SMTPURL is smtp://host:port, with STARTTLS if the server offers it, or
	// smtps://host:port; with user:password@ before the host if needed.
	SMTPURL Secret `yaml:"smtp_url" env:"SMTP_URL"`
	// From is the sender's address.
	From string `yaml:"from" env:"FROM"`
}

// Security configures the protection of stored secrets.
type Security struct {
	// EncryptionKeys is a list of name:base64 of 32 bytes; the first encrypts, all
	// decrypt. Empty: a key is generated and kept in the data directory.
	EncryptionKeys Secret `yaml:"encryption_keys" env:"ENCRYPTION_KEYS"`
	// RecordKeys is a list of Ed25519 keys that sign the record of signals, the present one
	// first. Empty: a key is generated and kept in the data directory.
	RecordKeys Secret `yaml:"record_keys" env:"RECORD_KEYS"`
}

// Record configures the record of signals.
type Record struct {
	// Every is how late a checkpoint may follow a creation or a closing; at least 1s.
	Every Duration `yaml:"every" env:"EVERY"`
	// Witnesses are the public keys, name+hash+base64, of those who may countersign checkpoints. Behind
	// a key and a space there may be the URL at which the witness is asked.
	Witnesses []string `yaml:"witnesses" env:"WITNESSES"`
}

// TLS is set if this process terminates TLS: two files in PEM, both or neither.
type TLS struct {
	CertFile string `yaml:"cert_file" env:"CERT_FILE"`
	KeyFile  string `yaml:"key_file" env:"KEY_FILE"`
}

// Log configures logging.
type Log struct {
	Level  string `yaml:"level" env:"LEVEL"`   // debug, info, warn or error
	Format string `yaml:"format" env:"FORMAT"` // json, text, or auto: text on a terminal
}

// Shutdown configures the end of the process.
type Shutdown struct {
	// Delay is how long requests are still accepted after /readyz reports that the
	// process is ending.
	Delay Duration `yaml:"delay" env:"DELAY"`
}

// Default returns every setting at its default.
func Default() Config {
	return Config{
		HTTP: HTTP{Addr: ":8080", MaxAnonymous: 1000, MaxExports: 16, MaxAccountExports: 2,
			Robots: "noindex"},
		DataDir: defaultDataDir(),
		Lease:   Duration(5 * time.Second),
		Redis:   Redis{WithoutReplicas: RefuseWithoutReplicas, Timeout: Duration(2 * time.Second)},
		RateLimit: RateLimit{
			Reads:         "3000/m",
			Runs:          "600/m",
			Intakes:       "120/m",
			Writes:        "300/m",
			Streams:       "20000/m",
			Logins:        "20/m",
			Registrations: "5/h",
			Sessions:      "60/m",
			Failures:      "300/m",
			Pages:         "1200/m",
			Scrapes:       "600/m",
		},
		Auth: Auth{
			Registration: "closed",
			AccessTTL:    Duration(15 * time.Minute),
			RefreshTTL:   Duration(720 * time.Hour),
			SessionTTL:   Duration(2160 * time.Hour),
			MaxSessions:  100,
			LockAfter:    5,
			LockWindow:   Duration(15 * time.Minute),
			LockDuration: Duration(15 * time.Minute),
		},
		Limits: Limits{Readers: 10_000},
		Dashboard: Dashboard{
			Heartbeat:      Duration(30 * time.Second),
			AuthTimeout:    Duration(10 * time.Second),
			QueueMessages:  256,
			QueueBytes:     1 << 20,
			MaxConnections: 10_000,
			ReplayMessages: 10_000,
			ReplayAge:      Duration(time.Hour),
		},
		Runs: Runs{
			Timeout:       Duration(30 * time.Second),
			MaxConcurrent: 20,
			MaxQueued:     1000,
			JobRetention:  Duration(24 * time.Hour),
		},
		Signals:  Signals{Retention: Duration(2160 * time.Hour), MaxOpen: 100_000},
		Market:   Market{Source: "simulated", Speed: 60, AlpacaFeed: "iex"},
		Weather:  Weather{Source: "simulated"},
		Costs:    Costs{Crypto: 10, Stock: 2, FX: 1, Commodity: 3, Slippage: 0.008},
		Audit:    Audit{Every: Duration(24 * time.Hour)},
		Record:   Record{Every: Duration(10 * time.Second)},
		Webhooks: defaultWebhooks(),
		Log:      Log{Level: "info", Format: "auto"},
	}
}

func defaultWebhooks() Webhooks {
	return Webhooks{
		Timeout:        Duration(15 * time.Second),
		ConnectTimeout: Duration(5 * time.Second),
		RetrySchedule: []Duration{
			Duration(30 * time.Second),
			Duration(2 * time.Minute),
			Duration(10 * time.Minute),
			Duration(30 * time.Minute),
			Duration(2 * time.Hour),
			Duration(8 * time.Hour),
		},
		DisableAfter:       Duration(72 * time.Hour),
		WarnAfter:          []Duration{Duration(24 * time.Hour), Duration(48 * time.Hour)},
		Retention:          Duration(720 * time.Hour),
		Keep:               10_000,
		MaxPending:         100_000,
		Concurrency:        8,
		HostConcurrency:    64,
		AccountConcurrency: 256,
		InFlight:           1024,
		OrderWait:          Duration(10 * time.Minute),
	}
}
