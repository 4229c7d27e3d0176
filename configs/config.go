// Package configs holds every setting of the service with its unit and default.
//
// Settings come from four layers, later ones first asked: flags, environment
// variables, a YAML file, the defaults. The name of a variable follows from the
// key of the file: runs.timeout is AGENTSIGNAL_RUNS_TIMEOUT, and
// AGENTSIGNAL_RUNS_TIMEOUT_FILE names a file that holds its value.
package configs

import (
	"time"
)

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
	Signals   Signals   `yaml:"signals" envPrefix:"SIGNALS_"`
	Market    Market    `yaml:"market" envPrefix:"MARKET_"`
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
}

// Redis is where the data is.
type Redis struct {
	// URL is redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://.
	// Empty: a child server is started, or an in-process one where none is installed.
	URL Secret `yaml:"url" env:"URL"`
	// WaitReplicas is how many replicas must have an event before a client is
	// answered.
	WaitReplicas int `yaml:"wait_replicas" env:"WAIT_REPLICAS"`
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
}

// Auth rules accounts and sessions.
type Auth struct {
	Registration string `yaml:"registration" env:"REGISTRATION"` // open or closed
	// JWTKeys is a list of name:base64 of 32 bytes; the first signs, all verify.
	// Empty: one is made and kept in the data directory.
	JWTKeys      Secret   `yaml:"jwt_keys" env:"JWT_KEYS"`
	AccessTTL    Duration `yaml:"access_ttl" env:"ACCESS_TTL"`
	RefreshTTL   Duration `yaml:"refresh_ttl" env:"REFRESH_TTL"`
	SessionTTL   Duration `yaml:"session_ttl" env:"SESSION_TTL"`
	LockAfter    int      `yaml:"lock_after" env:"LOCK_AFTER"` // failed logins
	LockWindow   Duration `yaml:"lock_window" env:"LOCK_WINDOW"`
	LockDuration Duration `yaml:"lock_duration" env:"LOCK_DURATION"`
}

// Dashboard bounds the WebSocket connections.
type Dashboard struct {
	Heartbeat      Duration `yaml:"heartbeat" env:"HEARTBEAT"`
	AuthTimeout    Duration `yaml:"auth_timeout" env:"AUTH_TIMEOUT"`
	QueueMessages  int      `yaml:"queue_messages" env:"QUEUE_MESSAGES"`
	QueueBytes     Bytes    `yaml:"queue_bytes" env:"QUEUE_BYTES"`
	MaxConnections int      `yaml:"max_connections" env:"MAX_CONNECTIONS"` // an account and process
	ReplayMessages int      `yaml:"replay_messages" env:"REPLAY_MESSAGES"`
	ReplayAge      Duration `yaml:"replay_age" env:"REPLAY_AGE"`
}

// Runs bounds the runs of agents.
type Runs struct {
	Timeout       Duration `yaml:"timeout" env:"TIMEOUT"`
	MaxConcurrent int      `yaml:"max_concurrent" env:"MAX_CONCURRENT"` // synchronous, an account and process
	MaxQueued     int      `yaml:"max_queued" env:"MAX_QUEUED"`         // jobs an account
	JobRetention  Duration `yaml:"job_retention" env:"JOB_RETENTION"`   // after a job's end
}

// Agents changes the catalogue.
type Agents struct {
	// Disabled names agents that are not listed and cannot be run.
	Disabled []string `yaml:"disabled" env:"DISABLED"`
	// Statuses sets what is said of an agent: active, beta or deprecated.
	Statuses map[string]string `yaml:"statuses" env:"STATUSES"`
}

// Signals says how long signals are kept.
type Signals struct {
	Retention Duration `yaml:"retention" env:"RETENTION"`
}

// Market says where prices come from.
type Market struct {
	// Source is simulated or stream, or a list tried in its order for each asset.
	Source string `yaml:"source" env:"SOURCE"`
	// Speed is how many times as fast as real time the simulated market runs.
	Speed int64 `yaml:"speed" env:"SPEED"`
	// Seed fixes the simulated prices of a market that begins.
	Seed uint64 `yaml:"seed" env:"SEED"`
}

// TLS is set where TLS ends in this process.
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
		HTTP:       HTTP{Addr: ":8080"},
		DataDir:    defaultDataDir(),
		Partitions: 16,
		Lease:      Duration(5 * time.Second),
		RateLimit: RateLimit{Reads: "3000/m", Runs: "600/m", Writes: "300/m", Streams: "20000/m", Logins: "20/m",
			Registrations: "5/h", Sessions: "60/m", Failures: "300/m"},
		Auth: Auth{Registration: "closed", AccessTTL: Duration(15 * time.Minute), RefreshTTL: Duration(720 * time.Hour),
			SessionTTL: Duration(2160 * time.Hour), LockAfter: 5, LockWindow: Duration(15 * time.Minute), LockDuration: Duration(15 * time.Minute)},
		Dashboard: Dashboard{Heartbeat: Duration(30 * time.Second), AuthTimeout: Duration(10 * time.Second), QueueMessages: 256,
			QueueBytes: 1 << 20, MaxConnections: 10_000, ReplayMessages: 10_000, ReplayAge: Duration(time.Hour)},
		Runs:    Runs{Timeout: Duration(30 * time.Second), MaxConcurrent: 20, MaxQueued: 1000, JobRetention: Duration(24 * time.Hour)},
		Signals: Signals{Retention: Duration(2160 * time.Hour)},
		Market:  Market{Source: "simulated", Speed: 60, Seed: 1},
		Log:     Log{Level: "info", Format: "auto"},
	}
}
