// Package configs holds every setting of the service with its unit and default.
//
// Settings come from four layers: the defaults, a YAML file over them, environment
// variables over that, flags over all. The name of a variable follows from the
// key of the file: runs.timeout is AGENTSIGNAL_RUNS_TIMEOUT, and
// AGENTSIGNAL_RUNS_TIMEOUT_FILE names a file that holds its value.
package configs

import "time"

// Prefix begins the name of every environment variable of the service.
const Prefix = "AGENTSIGNAL_"

// Config is every setting. The zero value is not useful: see Default and Load.
type Config struct {
	HTTP HTTP `yaml:"http" envPrefix:"HTTP_"`
	// DataDir keeps what belongs to this node alone: its id, secrets made by itself
	// and the files of a child Redis.
	DataDir string `yaml:"data_dir" env:"DATA_DIR"`
	// Cluster says that several nodes share the Redis. Secrets must then be given.
	Cluster bool `yaml:"cluster" env:"CLUSTER"`
	// Partitions is fixed at first start, 1 to 64.
	Partitions int `yaml:"partitions" env:"PARTITIONS"`
	// Lease is how long a partition stays with a node that is silent.
	Lease Duration `yaml:"lease" env:"LEASE"`

	Redis     Redis     `yaml:"redis" envPrefix:"REDIS_"`
	RateLimit RateLimit `yaml:"rate_limit" envPrefix:"RATE_LIMIT_"`
	Auth      Auth      `yaml:"auth" envPrefix:"AUTH_"`
	Dashboard Dashboard `yaml:"dashboard" envPrefix:"DASHBOARD_"`
	Runs      Runs      `yaml:"runs" envPrefix:"RUNS_"`
	Agents    Agents    `yaml:"agents" envPrefix:"AGENTS_"`
	Content   Content   `yaml:"content" envPrefix:"CONTENT_"`
	Signals   Signals   `yaml:"signals" envPrefix:"SIGNALS_"`
	Market    Market    `yaml:"market" envPrefix:"MARKET_"`
	Weather   Weather   `yaml:"weather" envPrefix:"WEATHER_"`
	Costs     Costs     `yaml:"costs" envPrefix:"COSTS_"`
	Webhooks  Webhooks  `yaml:"webhooks" envPrefix:"WEBHOOKS_"`
	Email     Email     `yaml:"email" envPrefix:"EMAIL_"`
	Security  Security  `yaml:"security" envPrefix:"SECURITY_"`
	TLS       TLS       `yaml:"tls" envPrefix:"TLS_"`
	Log       Log       `yaml:"log" envPrefix:"LOG_"`
	Shutdown  Shutdown  `yaml:"shutdown" envPrefix:"SHUTDOWN_"`
}

// HTTP is where the service listens and whom it believes.
type HTTP struct {
	Addr string `yaml:"addr" env:"ADDR"` // host:port of the API
	// AdminAddr, if set, is where /metrics and pprof are served instead.
	AdminAddr string `yaml:"admin_addr" env:"ADMIN_ADDR"`
	// CORSOrigins are the exact origins whose pages may call the API.
	CORSOrigins []string `yaml:"cors_origins" env:"CORS_ORIGINS"`
	// TrustedProxies are the networks whose X-Forwarded-For counts.
	TrustedProxies []string `yaml:"trusted_proxies" env:"TRUSTED_PROXIES"`
	// MaxAnonymous is how many connections of a client's address may be open on which no
	// credential was accepted, those of the stream included; proxies of TrustedProxies
	// are not counted.
	MaxAnonymous int `yaml:"max_anonymous" env:"MAX_ANONYMOUS"`
}

// Redis is where the data is.
type Redis struct {
	// URL is redis://, unix://, redis+cluster:// or redis+sentinel://, with rediss in
	// place of redis by TLS. Empty: a child server is started, or an in-process one where
	// none is installed.
	URL Secret `yaml:"url" env:"URL"`
	// CAFile, if set, has the certificates in PEM of those who may sign that of a Redis
	// with TLS, in place of those that the system trusts.
	CAFile string `yaml:"ca_file" env:"CA_FILE"`
	// MaxMemory is how many bytes of memory a child server may use; 0: half of what the
	// machine, or the control group of the service, has. Full, it refuses writes and
	// evicts nothing.
	MaxMemory Bytes `yaml:"max_memory" env:"MAX_MEMORY"`
	// WaitReplicas is how many replicas must have a change before a client is
	// answered: of signals, webhooks, schedules, jobs and credentials. With 0 a failover
	// may lose changes, and bring revoked credentials back.
	WaitReplicas int `yaml:"wait_replicas" env:"WAIT_REPLICAS"`
	// Timeout is how long Redis may take for a command, half of which it waits for replicas.
	// After it a client is answered with 503.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT"`
}

// RateLimit has a quota for each class of requests: NUMBER/s, /m or /h, or off.
type RateLimit struct {
	Reads         string `yaml:"reads" env:"READS"`
	Runs          string `yaml:"runs" env:"RUNS"`
	Writes        string `yaml:"writes" env:"WRITES"`
	Streams       string `yaml:"streams" env:"STREAMS"`
	Logins        string `yaml:"logins" env:"LOGINS"`
	Registrations string `yaml:"registrations" env:"REGISTRATIONS"`
	Sessions      string `yaml:"sessions" env:"SESSIONS"`
	Failures      string `yaml:"failures" env:"FAILURES"`
	Scrapes       string `yaml:"scrapes" env:"SCRAPES"` // of /metrics, by address
}

// Auth rules accounts and sessions.
type Auth struct {
	// Registration is open where anybody may make an account over HTTP, else closed.
	Registration string `yaml:"registration" env:"REGISTRATION"`
	// JWTKeys is a list of name:base64 of 32 bytes; the first signs, all verify.
	// Empty: one is made and kept in the data directory.
	JWTKeys Secret `yaml:"jwt_keys" env:"JWT_KEYS"`
	// AccessTTL is how long an access token is valid, RefreshTTL a refresh token that
	// is not used, SessionTTL a login however often it is refreshed.
	AccessTTL  Duration `yaml:"access_ttl" env:"ACCESS_TTL"`
	RefreshTTL Duration `yaml:"refresh_ttl" env:"REFRESH_TTL"`
	SessionTTL Duration `yaml:"session_ttl" env:"SESSION_TTL"`
	// MaxSessions is how many logins of an account are valid at a time. One more ends
	// the login that was not refreshed for longest.
	MaxSessions int `yaml:"max_sessions" env:"MAX_SESSIONS"`
	// HashQueue is how many passwords may wait to be checked; more are answered with
	// 503. One a core but one is checked at a time.
	HashQueue int `yaml:"hash_queue" env:"HASH_QUEUE"`
	// LockAfter failed logins within LockWindow lock an email for LockDuration, for
	// longer if that comes again within a day.
	LockAfter    int      `yaml:"lock_after" env:"LOCK_AFTER"`
	LockWindow   Duration `yaml:"lock_window" env:"LOCK_WINDOW"`
	LockDuration Duration `yaml:"lock_duration" env:"LOCK_DURATION"`
}

// Dashboard bounds the WebSocket connections.
type Dashboard struct {
	// Heartbeat is the time between two heartbeats of a connection.
	Heartbeat Duration `yaml:"heartbeat" env:"HEARTBEAT"`
	// AuthTimeout is how long a connection may take to authenticate itself.
	AuthTimeout Duration `yaml:"auth_timeout" env:"AUTH_TIMEOUT"`
	// QueueMessages and QueueBytes are what may wait for a slow reader before its
	// connection is closed.
	QueueMessages int   `yaml:"queue_messages" env:"QUEUE_MESSAGES"`
	QueueBytes    Bytes `yaml:"queue_bytes" env:"QUEUE_BYTES"`
	// MaxConnections is how many an account may have in one process.
	MaxConnections int `yaml:"max_connections" env:"MAX_CONNECTIONS"`
	// ReplayMessages and ReplayAge are how far back a connection may resume.
	ReplayMessages int      `yaml:"replay_messages" env:"REPLAY_MESSAGES"`
	ReplayAge      Duration `yaml:"replay_age" env:"REPLAY_AGE"`
}

// Runs bounds the runs of agents.
type Runs struct {
	// Timeout is how long a run may take before it fails.
	Timeout Duration `yaml:"timeout" env:"TIMEOUT"`
	// MaxConcurrent is how many synchronous runs an account may have in one process.
	MaxConcurrent int `yaml:"max_concurrent" env:"MAX_CONCURRENT"`
	// MaxQueued is how many jobs of an account may wait.
	MaxQueued int `yaml:"max_queued" env:"MAX_QUEUED"`
	// JobRetention is how long a job is kept after its end.
	JobRetention Duration `yaml:"job_retention" env:"JOB_RETENTION"`
}

// Agents changes the catalogue.
type Agents struct {
	// Disabled names agents that are not listed and cannot be run.
	Disabled []string `yaml:"disabled" env:"DISABLED"`
	// Statuses sets what is said of an agent: active, beta or deprecated.
	Statuses map[string]string `yaml:"statuses" env:"STATUSES"`
}

// Content names an endpoint with the chat protocol of OpenAI that writes for the
// content agent. Without ChatURL, and where the endpoint fails, the built-in writer
// does.
type Content struct {
	ChatURL   string `yaml:"chat_url" env:"CHAT_URL"` // http:// or https://, with or without /v1
	ChatKey   Secret `yaml:"chat_key" env:"CHAT_KEY"` // sent as bearer token; empty: none is
	ChatModel string `yaml:"chat_model" env:"CHAT_MODEL"`
}

// Signals rules what is kept of signals.
type Signals struct {
	// Retention is how long a signal is shown, from its creation.
	Retention Duration `yaml:"retention" env:"RETENTION"`
	// MaxOpen is how many open signals an account may have; runs beyond it are refused.
	MaxOpen int `yaml:"max_open" env:"MAX_OPEN"`
}

// Market says where prices come from.
type Market struct {
	// Source is a list of simulated, stream, binance, coinbase and alpaca, tried in its
	// order for each asset.
	Source string `yaml:"source" env:"SOURCE"`
	// Speed is how many times as fast as real time the simulated market runs.
	Speed int64 `yaml:"speed" env:"SPEED"`
	// Seed fixes the simulated prices of a market that begins.
	Seed uint64 `yaml:"seed" env:"SEED"`
	// BinanceURL, BinanceStreamURL (ws, wss), CoinbaseURL and AlpacaURL are where real
	// sources are reached. Empty: at their own addresses.
	BinanceURL       string `yaml:"binance_url" env:"BINANCE_URL"`
	BinanceStreamURL string `yaml:"binance_stream_url" env:"BINANCE_STREAM_URL"`
	CoinbaseURL      string `yaml:"coinbase_url" env:"COINBASE_URL"`
	AlpacaURL        string `yaml:"alpaca_url" env:"ALPACA_URL"`
	// AlpacaKey and AlpacaSecret are needed where Source has alpaca; AlpacaFeed is iex
	// or sip.
	AlpacaKey    Secret `yaml:"alpaca_key" env:"ALPACA_KEY"`
	AlpacaSecret Secret `yaml:"alpaca_secret" env:"ALPACA_SECRET"`
	AlpacaFeed   string `yaml:"alpaca_feed" env:"ALPACA_FEED"`
	// NewsFeeds are RSS or Atom feeds: an address, or address=WEIGHT with a weight of 0
	// to 1.
	NewsFeeds []string `yaml:"news_feeds" env:"NEWS_FEEDS"`
}

// Weather says where forecasts come from.
type Weather struct {
	// Source is simulated or open_meteo.
	Source string `yaml:"source" env:"SOURCE"`
	// APIKey is a customer's key for open_meteo. Without one its free service is asked,
	// which is not for commercial use.
	APIKey Secret `yaml:"api_key" env:"API_KEY"`
	// ForecastURL and ArchiveURL are the servers of open_meteo. Empty: its own.
	ForecastURL string `yaml:"forecast_url" env:"FORECAST_URL"`
	ArchiveURL  string `yaml:"archive_url" env:"ARCHIVE_URL"`
}

// Costs are what entry and exit of a trade cost each, in basis points of the price, by
// the class of the asset. Backtests and the scorecard reckon with them; metals count as
// commodities, and what is of no known class costs as much as the dearest.
type Costs struct {
	Crypto    float64 `yaml:"crypto" env:"CRYPTO"`
	Stock     float64 `yaml:"stock" env:"STOCK"`
	FX        float64 `yaml:"fx" env:"FX"`
	Commodity float64 `yaml:"commodity" env:"COMMODITY"`
}

// Webhooks rules deliveries to the endpoints of clients.
type Webhooks struct {
	// Timeout bounds one request, ConnectTimeout the connecting for it.
	Timeout        Duration `yaml:"timeout" env:"TIMEOUT"`
	ConnectTimeout Duration `yaml:"connect_timeout" env:"CONNECT_TIMEOUT"`
	// RetrySchedule is the time before each retry, from the end of the attempt before
	// it. Jitter, 0 to 0.5, is by which part of it a retry may come sooner or later.
	RetrySchedule []Duration `yaml:"retry_schedule,flow" env:"RETRY_SCHEDULE"`
	Jitter        float64    `yaml:"jitter" env:"JITTER"`
	// DisableAfter is how long an endpoint may fail before it is disabled, WarnAfter
	// after which times of failing its account is warned by mail. Warnings that would
	// not come before DisableAfter are left out.
	DisableAfter Duration   `yaml:"disable_after" env:"DISABLE_AFTER"`
	WarnAfter    []Duration `yaml:"warn_after,flow" env:"WARN_AFTER"`
	// AllowedNetworks are networks that endpoints may be in although they are not
	// public, without TLS too. AllowHTTP allows endpoints anywhere to be without TLS.
	AllowedNetworks []string `yaml:"allowed_networks" env:"ALLOWED_NETWORKS"`
	AllowHTTP       bool     `yaml:"allow_http" env:"ALLOW_HTTP"`
	// Retention is how long a delivery is kept after its end, Keep how many of a
	// webhook at most, and KeepBytes how many bytes of Redis' memory for all of these.
	Retention Duration `yaml:"retention" env:"RETENTION"`
	Keep      int      `yaml:"keep" env:"KEEP"`
	KeepBytes int      `yaml:"keep_bytes" env:"KEEP_BYTES"`
	// MaxPending is how many deliveries of an account may be pending. What is too many is
	// dropped.
	MaxPending int `yaml:"max_pending" env:"MAX_PENDING"`
	// Challenge has an endpoint answer a challenge before its URL is registered.
	Challenge bool `yaml:"challenge" env:"CHALLENGE"`
	// Concurrency is how many requests may be under way to an endpoint. From one process:
	// HostConcurrency to a host, at most half of them of one account, AccountConcurrency
	// of an account, InFlight in all.
	Concurrency        int `yaml:"concurrency" env:"CONCURRENCY"`
	HostConcurrency    int `yaml:"host_concurrency" env:"HOST_CONCURRENCY"`
	AccountConcurrency int `yaml:"account_concurrency" env:"ACCOUNT_CONCURRENCY"`
	InFlight           int `yaml:"in_flight" env:"IN_FLIGHT"`
	// OrderWait is how long at most the events of a signal wait for an earlier one of it
	// that is tried again; 0: they do not.
	OrderWait Duration `yaml:"order_wait" env:"ORDER_WAIT"`
}

// Email is how mails are sent. Without SMTPURL they are logged as not sent.
type Email struct {
	// SMTPURL is smtp://host:port, with STARTTLS where the server offers it, or
	// smtps://host:port; user:password@ in front of the host where needed.
	SMTPURL Secret `yaml:"smtp_url" env:"SMTP_URL"`
	// From is the sender's address.
	From string `yaml:"from" env:"FROM"`
}

// Security holds what protects stored secrets.
type Security struct {
	// EncryptionKeys is a list of name:base64 of 32 bytes; the first encrypts, all
	// decrypt. Empty: one is made and kept in the data directory.
	EncryptionKeys Secret `yaml:"encryption_keys" env:"ENCRYPTION_KEYS"`
}

// TLS is set where TLS ends in this process: files in PEM, both or none.
type TLS struct {
	CertFile string `yaml:"cert_file" env:"CERT_FILE"`
	KeyFile  string `yaml:"key_file" env:"KEY_FILE"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level" env:"LEVEL"`   // debug, info, warn or error
	Format string `yaml:"format" env:"FORMAT"` // json, text, or auto: text on a terminal
}

// Shutdown rules the end of the process.
type Shutdown struct {
	// Delay is how long requests are still taken after /readyz turned red.
	Delay Duration `yaml:"delay" env:"DELAY"`
}

// Default returns every setting at its default.
func Default() Config {
	return Config{
		HTTP:       HTTP{Addr: ":8080", MaxAnonymous: 1000},
		DataDir:    defaultDataDir(),
		Partitions: 16,
		Redis:      Redis{Timeout: Duration(2 * time.Second)},
		Lease:      Duration(5 * time.Second),
		RateLimit: RateLimit{Reads: "3000/m", Runs: "600/m", Writes: "300/m", Streams: "20000/m", Logins: "20/m",
			Registrations: "5/h", Sessions: "60/m", Failures: "300/m", Scrapes: "600/m"},
		Auth: Auth{Registration: "closed", AccessTTL: Duration(15 * time.Minute), RefreshTTL: Duration(720 * time.Hour),
			SessionTTL: Duration(2160 * time.Hour), MaxSessions: 100, HashQueue: 100,
			LockAfter: 5, LockWindow: Duration(15 * time.Minute), LockDuration: Duration(15 * time.Minute)},
		Dashboard: Dashboard{Heartbeat: Duration(30 * time.Second), AuthTimeout: Duration(10 * time.Second), QueueMessages: 256,
			QueueBytes: 1 << 20, MaxConnections: 10_000, ReplayMessages: 10_000, ReplayAge: Duration(time.Hour)},
		Runs:    Runs{Timeout: Duration(30 * time.Second), MaxConcurrent: 20, MaxQueued: 1000, JobRetention: Duration(24 * time.Hour)},
		Signals: Signals{Retention: Duration(2160 * time.Hour), MaxOpen: 100_000},
		Market:  Market{Source: "simulated", Speed: 60, Seed: 1, AlpacaFeed: "iex"},
		Weather: Weather{Source: "simulated"},
		Costs:   Costs{Crypto: 10, Stock: 2, FX: 1, Commodity: 3},
		Webhooks: Webhooks{Timeout: Duration(15 * time.Second), ConnectTimeout: Duration(5 * time.Second),
			RetrySchedule: []Duration{Duration(30 * time.Second), Duration(2 * time.Minute), Duration(10 * time.Minute),
				Duration(30 * time.Minute), Duration(2 * time.Hour), Duration(8 * time.Hour)},
			DisableAfter: Duration(72 * time.Hour), WarnAfter: []Duration{Duration(24 * time.Hour), Duration(48 * time.Hour)},
			Retention: Duration(720 * time.Hour), Keep: 10_000, KeepBytes: 8 << 20, MaxPending: 100_000, Concurrency: 8,
			HostConcurrency: 64, AccountConcurrency: 256, InFlight: 1024, OrderWait: Duration(10 * time.Minute)},
		Log: Log{Level: "info", Format: "auto"},
	}
}
