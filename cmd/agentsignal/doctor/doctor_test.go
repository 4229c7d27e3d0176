package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

var must = commandtest.Must

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m)) }

// find returns the check with the name.
func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q in %+v", name, checks)
	}
	return checks[i]
}

// want fails the test unless the check has the state and its text all parts. What is not ok must say what
// that means and what to do.
func want(t *testing.T, c Check, state State, parts ...string) {
	t.Helper()
	text := c.Fact + "\n" + c.Meaning + "\n" + c.Do
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %q: %+v", c.Name, part, c)
		}
	}
	if c.State != state || c.Fact == "" || (c.State == OK) != (c.Do == "") || c.State != OK && c.Meaning == "" {
		t.Errorf("got %+v, want the state %s", c, state)
	}
}

func TestChecksOfAServer(t *testing.T) {
	t.Parallel()
	good := map[string]string{"redis_version": "7.2.4", "valkey_version": "8.0.1", "aof_enabled": "1",
		"aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok", "maxmemory": "1000", "used_memory": "100",
		"maxmemory_policy": "noeviction", "connected_slaves": "0", "rdb_saves": "0"}
	for _, row := range []struct {
		name   string
		change string // of Info: lines of field=value
		wait   int
		accept bool
		fsync  string
		child  bool
		check  string
		state  State
		part   string
	}{
		{"Valkey", "", 0, false, "always", false, nameServer, OK, "Valkey 8.0.1"},
		{"Dragonfly", "dragonfly_version=df-v1", 0, false, "", false, nameServer, Fault, "Dragonfly df-v1"},
		{"KeyDB", "executable=/usr/bin/keydb-server", 0, false, "", false, nameServer, Fault, "KeyDB"},
		{"Redis 6", "redis_version=6.2.1", 0, false, "", false, nameServer, Fault, "Redis 6.2.1"},
		{"loading", "loading=1", 0, false, "", false, nameServer, Fault, "is loading"},
		{"a replica", "role=slave", 0, false, "", false, nameServer, Fault, "the master"},
		{"each change synced", "", 0, false, "always", false, nameFile, OK, "appendfsync always"},
		{"synced every second", "", 0, false, "everysec", false, nameFile, OK, "last second or two"},
		{"never synced", "", 0, false, "no", false, nameFile, Warning, "appendfsync everysec"},
		{"a child, whose file the service syncs", "", 0, false, "no", true, nameFile, OK, "every second"},
		{"no right to read settings", "", 0, false, "", false, nameFile, OK, "may not read CONFIG"},
		{"no file", "aof_enabled=0", 0, false, "no", false, nameFile, Warning, "appendonly yes"},
		{"a store that hides it", "aof_enabled=", 0, false, "", false, nameFile, Warning, "not known"},
		{"a failed write", "aof_last_write_status=err", 0, false, "", false, nameFile, Fault, "503"},
		{"a failed rewrite", "aof_last_bgrewrite_status=err", 0, false, "", false, nameFile, Warning, "rewrite failed"},
		{"no eviction", "", 0, false, "", false, "eviction", OK, "noeviction"},
		{"eviction", "maxmemory_policy=volatile-ttl", 0, false, "", false, "eviction", Fault, "maxmemory-policy noeviction"},
		{"little used", "", 0, false, "", false, "memory", OK, "100 B of 1000 B"},
		{"nearly full", "used_memory=900", 0, false, "", false, "memory", Warning, "Raise maxmemory"},
		{"full", "used_memory=1000", 0, false, "", false, "memory", Fault, "503"},
		{"one server", "", 0, false, "", false, "replicas", OK, "this server alone"},
		{"replicas for which nothing waits", "connected_slaves=2", 0, false, "", false, "replicas", Warning,
			"Set redis.wait_replicas to 1"},
		{"replicas for which changes wait", "connected_slaves=2", 1, false, "", false, "replicas", OK, "loses nothing"},
		{"a replica that still copies", "connected_slaves=1\nslave0=ip=h,port=1,state=wait_bgsave,lag=0", 1, false, "", false,
			"replicas", Fault, "1 still copying"},
		{"a replica that is up to date", "connected_slaves=1\nslave0=ip=h,port=1,state=online,lag=0", 1, false, "", false,
			"replicas", OK, "1 connected"},
		{"too few", "connected_slaves=1", 2, false, "", false, "replicas", Fault, "503"},
		{"too few, which is accepted", "connected_slaves=1", 2, true, "", false, "replicas", Warning, "may lose"},
		{"no snapshot", "", 0, false, "", false, "snapshot", OK, "Not needed"},
		{"a failed snapshot", "rdb_last_bgsave_status=err", 0, false, "", false, "snapshot", Warning, "failed"},
	} {
		s := redisclient.Server{Info: map[string]string{}, Fsync: row.fsync}
		for field, value := range good {
			s.Info[field] = value
		}
		for line := range strings.Lines(row.change) {
			field, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			s.Info[field] = value
		}
		c := configs.Default()
		c.Redis.WaitReplicas = row.wait
		if row.accept {
			c.Redis.WithoutReplicas = configs.AcceptWithoutReplicas
		}
		t.Run(row.name, func(t *testing.T) {
			want(t, find(t, checkServer(&s, c, "one server", row.child), row.check), row.state, row.part)
		})
	}
	// What may fail over is at risk also while no replica is connected.
	c := configs.Default()
	c.Redis.URL = "redis+sentinel://a:1/main"
	s := redisclient.Server{Info: good}
	want(t, find(t, checkServer(&s, c, "", false), "replicas"), Warning, "to the number of replicas")
	c.Redis.WaitReplicas = 1
	want(t, find(t, checkServer(&s, c, "", false), "replicas"), Fault, "503")
	for name, s := range map[string]redisclient.Server{
		"clock":      {Ahead: -3 * time.Second},
		"round trip": {RoundTrip: 50 * time.Millisecond},
	} {
		want(t, find(t, checkServer(&s, configs.Default(), "", false), name), Warning)
	}
}

func TestChecksOfSeveralServersAreJoined(t *testing.T) {
	t.Parallel()
	servers := []redisclient.Server{{Addr: "a:1"}, {Addr: "b:1"}}
	same, other := ok("x", "same", ""), ok("y", "one", "")
	got := merge(servers, [][]Check{{same, other}, {same, warning("y", "two", "m", "d")}})
	if len(got) != 3 || got[0] != same || got[1].Fact != "a:1: one" || got[2].Fact != "b:1: two" {
		t.Errorf("got %+v", got)
	}
}

func TestWaysToRedis(t *testing.T) {
	t.Parallel()
	for address, way := range map[string]string{
		"redis://u:se@cret@h:6379/0":                           "one server at h:6379",
		"rediss://h:6379":                                      "one server at h:6379 with TLS",
		"unix://u:secret@/run/redis.sock":                      "one server at /run/redis.sock",
		"redis+cluster://u:secret@a:1,b:2":                     "cluster, reached by a:1,b:2",
		"redis+sentinel://u:secret@a:1/m?sentinel_password=p2": "master m, which the sentinels a:1 name",
	} {
		if got := wayTo(address); got != way {
			t.Errorf("%s: %q, want %q", address, got, way)
		}
	}
}

// Each reason of Redis has one remedy, which does not depend on the words of the reason.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for _, reason := range redisclient.Reasons() {
		if remedies[reason] == "" {
			t.Errorf("no remedy for %q", reason)
		}
	}
	if len(remedies) != len(redisclient.Reasons()) || remedy("another one") == "" {
		t.Errorf("there are %d remedies for %d reasons", len(remedies), len(redisclient.Reasons()))
	}
}

// An address of the wrong kind is explained, by what servers of each kind answered to it.
func TestWrongKindsOfRedis(t *testing.T) {
	t.Parallel()
	watched, cluster := redistest.NewWatched(t, 0), redistest.NewCluster(t, 1)
	// as returns the address of a server in another form.
	as := func(address, scheme, path string) string {
		u, err := url.Parse(address)
		must(t, err)
		u.Scheme, u.Path, u.RawQuery = scheme, path, ""
		if address == watched.URL() && scheme == "redis" {
			u.User = nil // sentinels do not know the user of the master
		}
		return u.String()
	}
	look := func(address string, parts ...string) {
		t.Helper()
		c := configs.Default()
		c.Redis.URL, c.Redis.Timeout = configs.Secret(address), configs.Duration(20*time.Second)
		checks := checkRedis(t.Context(), c)
		if len(checks) != 1 {
			t.Fatalf("%s: got %+v", address, checks)
		}
		want(t, checks[0], Fault, append(parts, "The service is not ready")...)
	}
	sentinel := watched.URL()
	look(as(sentinel, "redis+sentinel", "/other"), "know no master of this name", "sentinel monitor")
	look(as(sentinel, "redis", ""), "this is a sentinel", "redis+sentinel://")
	look(as(cluster.URL(), "redis+sentinel", "/m"), "this is no sentinel", "Name the sentinels")
	look(as(cluster.URL(), "redis", "/99"), "this is a node of a cluster", "redis+cluster://")
	must(t, cluster.Nodes()[0].ClusterDelSlotsRange(t.Context(), 0, 16383).Err())
	look(cluster.URL(), "has slots", "--cluster create")
	for _, row := range []struct{ address, failure, part string }{
		{"redis+cluster://h:1", "find the servers: ERR This instance has cluster support disabled", "this is no cluster"},
		{"redis://h:1", "ask for the server: read installation: MOVED 14143 127.0.0.1:27023", "redis+cluster://HOST"},
		{"redis://h:1", "ask for the server: EOF", "rediss://"},
		{"rediss://h:1", "ask for the server: context deadline exceeded", "redis:// in redis.url"},
		{"rediss://h:1", "ask for the server: tls: failed to verify certificate: x509: certificate signed by unknown authority",
			"redis.ca_file"},
		{"redis+cluster://h:1", "find the servers: CLUSTERDOWN Hash slot not served", "Start Redis"},
	} {
		want(t, unreachable(row.address, "w", errors.New(row.failure)), Fault, row.part, "Nothing that clients were told is lost")
	}
}

// What is found follows the state of a real server, and the server gets no keys.
func TestRedisInItsStates(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	rdb := server.Client()
	c := configs.Default()
	c.Redis.URL, c.Redis.Timeout = configs.Secret(server.URL()), configs.Duration(20*time.Second)
	server.Deny("-config") // it never has this right: here its use is not a fault of the test
	set := func(name, value string) { must(t, rdb.ConfigSet(t.Context(), name, value).Err()) }
	look := func() []Check { return checkRedis(t.Context(), c) }

	checks := look()
	want(t, find(t, checks, nameServer), OK, "one server at")
	want(t, find(t, checks, nameFile), Warning, "appendonly yes")
	want(t, find(t, checks, "installation"), Warning, "first start")
	if n := rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the server has %d keys", n)
	}
	set("appendonly", "yes")
	want(t, find(t, look(), nameFile), OK, "may not read CONFIG")
	set("maxmemory", "100mb")
	set("maxmemory-policy", "allkeys-lru")
	checks = look()
	want(t, find(t, checks, "eviction"), Fault)
	if len(checks) != 8 { // the service does not start, so nothing is written
		t.Errorf("with eviction there are %d checks", len(checks))
	}
	set("maxmemory-policy", "noeviction")
	set("maxmemory", "1")
	checks = look()
	want(t, find(t, checks, "memory"), Fault)
	want(t, find(t, checks, nameWrites), Fault, "redis is full", "Raise maxmemory")
	set("maxmemory", "0")
	c.Redis.WaitReplicas = 1
	want(t, find(t, look(), nameWrites), Fault, "replicas are missing", "Start the replicas")
	c.Redis.WaitReplicas = 0
	server.Deny("-info")
	checks = look()
	want(t, find(t, checks, nameServer), Warning, "may not read INFO", "+info")
	server.Deny("-set")
	want(t, find(t, look(), nameWrites), Fault, "lacks rights", "users.acl")
	server.Deny("resetpass")
	want(t, find(t, look(), nameServer), Fault, "refuses the user")
	server.Kill()
	want(t, find(t, look(), nameServer), Fault, "Start Redis", "Nothing that clients were told is lost")
}

// A signal log that was deleted lacks signals that clients have seen.
func TestDeletedSignalLogIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	rdb := server.Client()
	c := configs.Default()
	c.Redis.URL, c.Redis.Timeout, c.Partitions = configs.Secret(server.URL()), configs.Duration(20*time.Second), 2
	server.Deny("-config") // as in TestRedis
	options, err := redisclient.Installed(t.Context(), redisclient.Options{URL: server.URL(), Partitions: 2})
	must(t, err)
	client, err := redisclient.NewClient(options)
	must(t, err)
	defer client.Close()
	want(t, find(t, checkRedis(t.Context(), c), nameSignals), OK)
	must(t, rdb.Set(t.Context(), client.LeafHeadKey(1), codec.LogHead{Size: 3}.String(), 0).Err())
	want(t, find(t, checkRedis(t.Context(), c), nameSignals), Fault, "[1]", "backup")
}

// Without redis.url the Redis of the data directory is looked at, and none is made.
func TestRedisOfADataDirectory(t *testing.T) {
	t.Parallel()
	c := configs.Default()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	look := func() Check { return find(t, checkRedis(t.Context(), c), nameServer) }
	want(t, look(), Warning, "no data directory "+c.DataDir)
	if _, err := os.Stat(c.DataDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	must(t, os.Mkdir(c.DataDir, 0o700))
	want(t, look(), Warning, "no data in "+c.DataDir)
	if files, err := os.ReadDir(c.DataDir); err != nil || len(files) != 0 {
		t.Errorf("the directory has %v, %v", files, err)
	}
	service, err := datadir.StartEmbedded(t.Context(), datadir.EmbeddedOptions{Dir: c.DataDir,
		Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	want(t, look(), OK, "of the running service")
	if service.PID() == 0 {
		t.Error("the server of the service was ended")
	}
	must(t, service.Stop(t.Context()))
	want(t, look(), OK, "for this report")
	again, err := datadir.StartEmbedded(t.Context(), datadir.EmbeddedOptions{Dir: c.DataDir,
		Log: slog.New(slog.DiscardHandler)}) // what was started has ended
	must(t, err)
	must(t, again.Stop(t.Context()))

	c.DataDir = commandtest.Written(t, "a file")
	want(t, look(), Fault, "not a directory")
}

func TestDataDirectory(t *testing.T) {
	t.Parallel()
	c := configs.Default()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.HTTP.Addr = "127.0.0.1:0" // another test may listen at that of the default
	look := func(name string) Check { return find(t, checkMachine(t.Context(), c, nil, time.Now()), name) }
	want(t, look("data directory"), OK, "which serve makes")
	want(t, look("secret files"), OK, "none")
	makeKey(t, c.DataDir)
	want(t, look("data directory"), OK, c.DataDir)
	want(t, look("secret files"), OK, "1, which only their owner")
	must(t, os.Chmod(filepath.Join(c.DataDir, "jwt.key"), 0o640))
	want(t, look("secret files"), Fault, "jwt.key (0640)")
	must(t, os.Chmod(c.DataDir, 0o777))
	want(t, look("data directory"), Fault, "every user")
	c.DataDir = commandtest.Written(t, "a file")
	want(t, look("data directory"), Fault, "not a directory")

	path := commandtest.Written(t, "secret")
	must(t, os.Chmod(path, 0o644))
	c.DataDir = t.TempDir()
	environ := []string{"AGENTSIGNAL_AUTH_JWT_KEYS_FILE=" + path}
	want(t, checkSecrets(c, environ), Warning, path)
	want(t, look("open files"), OK)
	c.Dashboard.MaxConnections = 1 << 30
	want(t, look("open files"), Warning, "LimitNOFILE")
}

// An address in use is a fault, unless a service of this program has it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var readyz, metrics string // what is answered
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, readyz)
		case "/metrics":
			fmt.Fprint(w, metrics)
		}
	}))
	defer other.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	c := configs.Default()
	look := func(addr, admin string) []Check {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c.HTTP.Addr, c.HTTP.AdminAddr = addr, admin
		return checkAddresses(ctx, c)
	}
	free := look("127.0.0.1:0", "")
	want(t, free[0], OK, "127.0.0.1:0 is free")
	if len(free) != 1 {
		t.Errorf("without http.admin_addr: %+v", free)
	}
	taken := other.Listener.Addr().String()
	for _, check := range look(taken, taken) {
		want(t, check, Fault, taken+" is in use", "choose another "+check.Name)
	}
	readyz, metrics = `{"status":"not_ready"}`, "# TYPE agentsignal_ready gauge\nagentsignal_ready 0\n"
	for _, check := range look(taken, taken) {
		want(t, check, OK, "an agentsignal service listens at "+taken)
	}
	readyz, metrics = `{"status":"not_ready"}`, "# TYPE node_load1 gauge\nnode_load1 0\n"
	want(t, look(taken, taken)[1], Fault)
	want(t, look("192.0.2.1:80", "")[0], Fault, "listen tcp 192.0.2.1:80", "http.addr")
	want(t, look(silent.Addr().String(), "")[0], Fault, silent.Addr().String()) // it answers nothing
}

// makeKey makes a data directory with a key.
func makeKey(t *testing.T, dir string) {
	t.Helper()
	_, err := configs.LoadOrMakeKeys(dir, "jwt.key")
	must(t, err)
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	issue := func(from, until time.Duration) configs.TLS {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"signals.example.com"},
			NotBefore: now.Add(from), NotAfter: now.Add(until)}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		must(t, err)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		must(t, err)
		file := func(kind string, b []byte) string {
			return commandtest.Written(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})))
		}
		return configs.TLS{CertFile: file("CERTIFICATE", cert), KeyFile: file("PRIVATE KEY", private)}
	}
	const day = 24 * time.Hour
	good, other := issue(-day, 90*day+time.Hour), issue(-day, 90*day)
	for name, row := range map[string]struct {
		files configs.TLS
		state State
		part  string
	}{
		"none":          {configs.TLS{}, OK, "plain HTTP"},
		"a valid one":   {good, OK, "for signals.example.com, until"},
		"nearly over":   {issue(-day, 3*day+time.Hour), Warning, "3 days left"},
		"expired":       {issue(-2*day, -day), Fault, "has expired"},
		"not yet valid": {issue(day, 2*day), Fault, "not valid before"},
		"another key":   {configs.TLS{CertFile: good.CertFile, KeyFile: other.KeyFile}, Fault, "does not match"},
		"no such file":  {configs.TLS{CertFile: "/nosuch", KeyFile: good.KeyFile}, Fault, "tls.cert_file"},
	} {
		t.Run(name, func(t *testing.T) {
			c := configs.Default()
			c.TLS = row.files
			want(t, checkCertificate(c, now), row.state, row.part)
		})
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return noSession{}, nil }))
	server.ErrorLog = log.New(io.Discard, "", 0)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	var hosts reached
	c := configs.Email{From: "a@example.org"}
	want(t, checkMail(t.Context(), c, &hosts)[0], OK, "only logged")
	want(t, checkReached(&hosts), OK, "not tried")
	c.SMTPURL = configs.Secret("smtps://u:secret@" + l.Addr().String())
	refused := checkMail(t.Context(), c, &hosts)[0]
	want(t, refused, Fault, l.Addr().String(), "get no mail")
	if strings.Contains(fmt.Sprint(refused), "secret") {
		t.Errorf("the password is shown: %+v", refused)
	}
	want(t, checkReached(&hosts), Warning, "0 of 1 answered")
	c.SMTPURL = configs.Secret("smtp://" + l.Addr().String())
	want(t, checkMail(t.Context(), c, &hosts)[0], Warning, "without TLS, no login")
	want(t, checkReached(&hosts), OK, "1 of 2 answered")
}

// noSession is a session in which no mail may be sent.
type noSession struct{ smtp.Session }

func (noSession) Reset()        {}
func (noSession) Logout() error { return nil }

func TestWaysOut(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		networks []string
		http     bool
		state    State
		part     string
	}{
		{nil, false, OK, "only to public addresses"},
		{[]string{"10.1.0.0/16"}, false, OK, "10.1.0.0/16"},
		{[]string{"10.1.0.0/16"}, true, Warning, "allow_http"},
		{[]string{"0.0.0.0/0"}, false, Warning, "credentials of a cloud"},
		{[]string{"169.254.0.0/16"}, false, Warning, "credentials of a cloud"},
	} {
		want(t, checkGuard(configs.Webhooks{AllowedNetworks: row.networks, AllowHTTP: row.http}), row.state, row.part)
	}
	want(t, checkProxies([]string{"https_proxy=http://u:secret@p:1", "NO_PROXY=x"}), OK, "https_proxy", "Webhooks")
	var hosts reached
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := "http://" + l.Addr().String() + "/v1"
	want(t, checkChat(t.Context(), address, &hosts), OK, "no request was sent")
	must(t, l.Close())
	// Another test may get the port that was closed, but none listens at 1.
	want(t, checkChat(t.Context(), "http://127.0.0.1:1/v1", &hosts), Warning, "built-in writer")
}

// The report fits 80 columns and ends with what is wrong.
func TestPrint(t *testing.T) {
	t.Parallel()
	r := Report{Faults: 1, Warnings: 1, Checks: []Check{
		{areaRedis, "server", OK, "Redis 7.0.15, one server at db.example.com:6379", "", ""},
		{areaRedis, "append-only file", Warning, "none", strings.Repeat("It loses things. ", 9), "Set appendonly yes in Redis."},
		{areaSources, "a source with a long name", Fault, strings.Repeat("x", 90), "It fails.", "Wait."},
	}}
	var b strings.Builder
	must(t, r.Print(&b, false))
	got := b.String()
	for line := range strings.Lines(got) {
		if len(line) > lineWidth+1 && !strings.Contains(line, "xxx") {
			t.Errorf("a line is too long: %s", line)
		}
	}
	const begin = `REDIS
ok       server            Redis 7.0.15, one server at db.example.com:6379
warning  append-only file  none
                           It loses things. It loses things. It loses things. It
`
	const end = `
                           -> Set appendonly yes in Redis.

SOURCES
FAULT    a source with a long name
                           ` + "XXX" + `
                           It fails.
                           -> Wait.

1 fault: sources a source with a long name; 1 warning: redis append-only file.
`
	if !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, strings.Replace(end, "XXX", strings.Repeat("x", 90), 1)) {
		t.Errorf("printed:\n%s", got)
	}
	if err := r.Err(); err == nil || err.Error() != "1 fault: sources a source with a long name" {
		t.Errorf("the error is %v", err)
	}
	b.Reset()
	must(t, (&Report{}).Print(&b, true))
	if !strings.Contains(b.String(), "Nothing is wrong.") {
		t.Errorf("printed %q", b.String())
	}
}
