package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/leaves"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// maxAhead is the difference of two clocks above which it is a warning.
	maxAhead = 2 * time.Second
	// slowRoundTrip is the round trip to Redis above which it is a warning: a change takes several.
	slowRoundTrip = 20 * time.Millisecond
	// fullShare is the share of a limit of memory above which it is a warning.
	fullShare = 0.8
)

// Names of checks that are made in several places.
const (
	nameServer  = "server"
	nameFile    = "append-only file"
	nameWrites  = "writes"
	nameSignals = "signal logs"
)

// refusesChanges is what follows where Redis takes no changes, for whatever reason.
const refusesChanges = "Changes answer 503 until it does. Nothing that clients were told is lost."

// remedies says what to do about each reason of redisclient.Refusal.
var remedies = map[string]string{
	redisclient.IsFull:            "Raise maxmemory, or shorten signals.retention and webhooks.keep.",
	redisclient.IsReadOnly:        "Set redis.url to the master, or to sentinels.",
	redisclient.CannotWriteDisk:   "Free the disk of Redis, or look at its log.",
	redisclient.ReplicasMissing:   "Start the replicas, or lower redis.wait_replicas.",
	redisclient.IsLoading:         "Wait.",
	redisclient.HasLostMaster:     "Start its master, or set redis.url to the present one, or to sentinels.",
	redisclient.ClusterIncomplete: "Start the masters that are missing: redis-cli --cluster check names them.",
	redisclient.MovesSlot:         "Wait until the cluster has moved it.",
	redisclient.RefusesUser:       "Correct the user or the password in redis.url.",
	redisclient.LacksRights:       "Give the user of redis.url the rights of deploy/redis/users.acl.",
	redisclient.DatabaseTooHigh:   "Correct the database number in redis.url: 0 always exists.",
	redisclient.DatabaseNotValid:  "Correct the database number in redis.url.",
}

// remedy returns what to do about a reason of redisclient.Refusal, or about an error that has none.
func remedy(reason string) string { return cmp.Or(remedies[reason], "Look at Redis and its log.") }

// mistakes are wrong forms of redis.url, by parts of the form and of the error that follows. The first
// that fits counts.
var mistakes = []struct{ scheme, failure, fact, do string }{
	{"+cluster:", "cluster support disabled", "this is no cluster", "Use redis://HOST:PORT in redis.url for one server."},
	{"+sentinel:", "unknown command 'sentinel'", "this is no sentinel",
		"Name the sentinels in redis.url in place of the master, or use redis://HOST:PORT for one server."},
	{"+sentinel:", "redis: nil", "the sentinels know no master of this name",
		"Correct the name at the end of redis.url: it is that of \"sentinel monitor\"."},
	{"", "unknown command 'time'", "this is a sentinel",
		"Use redis+sentinel://HOST:PORT/NAME in redis.url, with the name of the master."},
	{"", "not allowed in cluster mode", "this is a node of a cluster", "Use redis+cluster://HOST:PORT in redis.url."},
	{"", "MOVED ", "this is a node of a cluster", "Use redis+cluster://HOST:PORT in redis.url."},
	{"rediss", "tls: ", "", "Correct the certificate of Redis or its host in redis.url, or set redis.ca_file to who signed it."},
	{"rediss", "deadline exceeded", "nothing here answers with TLS", "Use redis:// in redis.url if this Redis has no TLS."},
	{"redis", "EOF", "it ended the connection", "Use rediss:// in redis.url if this Redis has TLS."},
}

// checkRedis checks the configured Redis, or that of the data directory.
func checkRedis(ctx context.Context, c configs.Config) []Check {
	if c.Redis.URL != "" {
		return inspect(ctx, service.StoreOptions(c, string(c.Redis.URL)), c, wayTo(string(c.Redis.URL)), false)
	}
	found, err := datadir.Look(c.DataDir)
	if err != nil {
		return []Check{fault(nameServer, err.Error(), "The service cannot start its Redis there.", "Choose another data_dir.")}
	}
	switch {
	case found.Server == "":
		return []Check{warning(nameServer, "none is installed, and redis.url is not set",
			"The service keeps its data in its own process: nothing that a client was told survives a restart.",
			"Install redis-server or valkey-server 7.0 or later, or set redis.url.")}
	case !found.Exists:
		return []Check{warning(nameServer, "not started: there is no data directory "+found.Dir,
			"serve makes it, and starts "+found.Server+" with its files there. It then has no data.",
			"If the service has another one, give that by --data-dir or AGENTSIGNAL_DATA_DIR.")}
	case !found.Data:
		return []Check{warning(nameServer, "not started: there are no data in "+found.Dir,
			"serve starts "+found.Server+" with its files there. It then has no data.",
			"If the service has another directory, give that by --data-dir or AGENTSIGNAL_DATA_DIR.")}
	}
	child, err := datadir.StartEmbedded(ctx, datadir.EmbeddedOptions{
		Dir: c.DataDir, Share: true, MaxMemory: int64(c.Redis.MaxMemory), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return []Check{fault(nameServer, err.Error(), "The service does not start either.",
			"Look at redis.log in "+found.Dir+", and at its disk and rights below.")}
	}
	way := "the child of the running service in " + found.Dir
	if child.PID() != 0 {
		way = "started on " + found.Dir + " for this report, as no service runs there"
	}
	checks := inspect(ctx, service.StoreOptions(c, child.URL()), c, way, true)
	if err := child.Stop(context.WithoutCancel(ctx)); err != nil {
		checks = append(checks, fault("end of the server", err.Error(), "The directory stays locked until it has ended.",
			"Look for a process that has "+found.Dir+" as its directory."))
	}
	return checks
}

// wayTo describes how the Redis at a valid address is reached, without user and password.
func wayTo(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	hosts, path, _ := strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "/")
	encrypted := ""
	if strings.HasPrefix(scheme, "rediss") {
		encrypted = " with TLS"
	}
	switch {
	case scheme == "unix":
		if u, err := url.Parse(address); err == nil {
			return "one server at " + u.Path
		}
		return "one server by its socket"
	case strings.HasSuffix(scheme, "sentinel"):
		name, _, _ := strings.Cut(path, "?")
		return "master " + name + ", which the sentinels " + hosts + " name" + encrypted
	case strings.HasSuffix(scheme, "cluster"):
		return "cluster, reached by " + hosts + encrypted
	}
	return "one server at " + hosts + encrypted
}

// inspect checks the Redis of o, which was reached by way.
func inspect(ctx context.Context, o redisclient.Options, c configs.Config, way string, child bool) []Check {
	o.Timeout = time.Duration(c.Redis.Timeout)
	former := o
	former.Partitions = 1
	client, err := redisclient.NewClient(former)
	if err != nil {
		return []Check{fault(nameServer, err.Error(), "The service does not start.", "Correct redis.url.")}
	}
	servers, err := client.Inspect(ctx)
	err = errors.Join(err, client.Close())
	if err == nil && len(servers) == 0 {
		return []Check{fault(nameServer, "no master of this "+way+" has slots", "The service is not ready and waits for it.",
			"Give the slots of the cluster to masters, by redis-cli --cluster create.")}
	}
	if err != nil {
		return []Check{unreachable(o.URL, way, err)}
	}
	each := make([][]Check, len(servers))
	fit := true
	for i := range servers {
		s := &servers[i]
		each[i] = checkServer(s, c, way, child)
		fit = fit && cmp.Or(s.Unfit(), s.Evicts()) == ""
	}
	checks := merge(servers, each)
	if !fit {
		return checks // the service does not start, so it does not write
	}
	return append(checks, checkInstallation(ctx, o, c)...)
}

// unreachable returns the check of the Redis at address, which does not answer as it must.
func unreachable(address, way string, err error) Check {
	const meaning = "The service is not ready and waits for it. " + refusesChanges
	if reason, _ := redisclient.Refusal(err); reason != "" {
		return fault(nameServer, reason+" ("+way+")", meaning, remedy(reason))
	}
	text := err.Error()
	if e, isOurs := errors.AsType[*signal.Error](err); isOurs && e.Cause != nil {
		text = e.Cause.Error()
	}
	scheme, _, _ := strings.Cut(address, "//")
	for _, m := range mistakes {
		if strings.Contains(scheme, m.scheme) && strings.Contains(text, m.failure) {
			return fault(nameServer, way+": "+cmp.Or(m.fact, text), meaning, m.do)
		}
	}
	return fault(nameServer, way+": "+text, meaning, "Start Redis, or correct redis.url.")
}

// merge joins the checks of several servers: those with one fact for all are one.
func merge(servers []redisclient.Server, each [][]Check) []Check {
	var all []Check
	for i, first := range each[0] {
		same := true
		for j := range each {
			if i < len(each[j]) {
				same = same && each[j][i] == first
			}
		}
		if same {
			all = append(all, first)
			continue
		}
		for j := range each {
			if i < len(each[j]) {
				check := each[j][i]
				check.Fact = servers[j].Addr + ": " + check.Fact
				all = append(all, check)
			}
		}
	}
	return all
}

// checkServer returns the checks of one server: always of the same names in the same order, unless its
// user may not read INFO.
func checkServer(s *redisclient.Server, c configs.Config, way string, child bool) []Check {
	if s.Info == nil {
		return []Check{
			warning(nameServer, way+"; its user may not read INFO",
				"Which program it is, and whether it keeps what clients were told, is not known: the service assumes it.",
				"Give the user of redis.url the right +info, as deploy/redis/users.acl does."),
			checkClock(s), checkRoundTrip(s),
		}
	}
	return []Check{
		checkProgram(s, way), checkFile(s, child), checkEviction(s), checkMemory(s), checkReplicas(s, c.Redis),
		checkSnapshot(s), checkClock(s), checkRoundTrip(s),
	}
}

func checkProgram(s *redisclient.Server, way string) Check {
	fact := cmp.Or(s.Program(), "a program that does not name its version") + ", " + way
	switch {
	case s.Unfit() != "":
		return fault(nameServer, fact, "The service does not start: "+s.Unfit()+".", "Use Redis 7.0 or later, or Valkey.")
	case s.Info["loading"] == "1":
		return fault(nameServer, fact+"; it is loading its data", refusesChanges, remedy(redisclient.IsLoading))
	case s.Info["role"] == "slave":
		return fault(nameServer, fact+"; it is a replica", "The service is not ready. "+refusesChanges,
			remedy(redisclient.IsReadOnly))
	}
	return ok(nameServer, fact, "")
}

func checkFile(s *redisclient.Server, child bool) Check {
	fsync := s.Fsync
	if fsync == "" {
		fsync = "how often it is synced is not known, as the user may not read CONFIG"
	} else if !child {
		fsync = "appendfsync " + fsync
	}
	switch {
	case s.Info["aof_enabled"] == "":
		return warning(nameFile, "not known: the server does not report it",
			"Whether a restart of Redis loses what clients were told is not known.", "Ask who runs it.")
	case s.Info["aof_enabled"] != "1":
		return warning(nameFile, "none", "A restart of Redis loses what clients were told since its last snapshot, or all.",
			"Set appendonly yes in Redis.")
	case s.Info["aof_last_write_status"] == "err":
		return fault(nameFile, "Redis could not write to it",
			"Changes answer 503 until it can. Only a crash of Redis before that loses something: what clients were told last.",
			remedy(redisclient.CannotWriteDisk))
	case s.Info["aof_last_bgrewrite_status"] == "err":
		return warning(nameFile, "its last rewrite failed; "+fsync,
			"The file grows until the disk is full. Nothing that clients were told is lost.", remedy(redisclient.CannotWriteDisk))
	case child:
		return ok(nameFile, "written at each change, synced every second",
			"A power cut may lose the last second of what clients were told.")
	case s.Fsync == "no":
		return warning(nameFile, fsync, "A power cut may lose half a minute of what clients were told.",
			"Set appendfsync everysec or always in Redis.")
	case s.Fsync == "always":
		return ok(nameFile, fsync, "A power cut loses nothing that clients were told.")
	}
	return ok(nameFile, fsync, "With everysec, a power cut may lose the last second or two of what clients were told.")
}

func checkEviction(s *redisclient.Server) Check {
	policy := cmp.Or(s.Info["maxmemory_policy"], "not known")
	switch {
	case s.Evicts() != "":
		return fault("eviction", "maxmemory-policy "+policy,
			"A full Redis loses what clients were told, so the service does not start.",
			"Set maxmemory-policy noeviction in Redis.")
	case policy != "noeviction":
		return ok("eviction", policy+", without effect as maxmemory is 0",
			"With a limit a full Redis would lose what clients were told, and the service would not start.")
	}
	return ok("eviction", "none (noeviction)", "A full Redis refuses changes, and loses nothing that clients were told.")
}

func checkMemory(s *redisclient.Server) Check {
	used, limit := number(s.Info["used_memory"]), number(s.Info["maxmemory"])
	fact := fmt.Sprintf("%s of %s", bytes(used), bytes(limit))
	if limit == 0 {
		limit = number(s.Info["total_system_memory"])
		fact = fmt.Sprintf("%s; no maxmemory, the machine has %s", bytes(used), bytes(limit))
	}
	do := remedy(redisclient.IsFull)
	switch share := float64(used) / float64(max(limit, 1)); {
	case limit == 0:
		return ok("memory", bytes(used)+"; the limit is not known", "")
	case share >= 1:
		return fault("memory", fact, refusesChanges, do)
	case share >= fullShare:
		return warning("memory", fact, "When it is full, changes answer 503.", do)
	}
	return ok("memory", fact, "")
}

func checkReplicas(s *redisclient.Server, c configs.Redis) Check {
	connected := int(number(s.Info["connected_slaves"]))
	copying := 0
	for i := range connected { // slave0:ip=…,port=…,state=online,…; without a state it is taken as online
		state := s.Info[fmt.Sprintf("slave%d", i)]
		if strings.Contains(state, "state=") && !strings.Contains(state, "state=online") {
			connected--
			copying++
		}
	}
	fact := fmt.Sprintf("%d connected, redis.wait_replicas %d", connected, c.WaitReplicas)
	if copying > 0 {
		fact += fmt.Sprintf("; %d still copying", copying)
	}
	switch {
	case connected < c.WaitReplicas && c.WithoutReplicas == configs.AcceptWithoutReplicas:
		return warning("replicas", fact, "A failover may lose what clients were told meanwhile: changes do not wait.",
			"Start the replicas.")
	case connected < c.WaitReplicas:
		return fault("replicas", fact, refusesChanges, remedy(redisclient.ReplicasMissing))
	case c.WaitReplicas == 0 && (connected > 0 || redisclient.FailsOver(string(c.URL))):
		return warning("replicas", fact, "A failover may lose what clients were told last.", redisclient.ConfirmChanges)
	case connected == 0:
		return ok("replicas", fact, "What clients were told is on this server alone.")
	}
	return ok("replicas", fact, "A failover to a replica that has confirmed a change loses nothing that clients were told.")
}

func checkSnapshot(s *redisclient.Server) Check {
	if s.Info["rdb_last_bgsave_status"] == "err" {
		return warning("snapshot", "the last background save failed",
			"With save points Redis then refuses changes; copies of the file are old.",
			remedy(redisclient.CannotWriteDisk))
	}
	fact := "the last background save succeeded"
	if s.Info["rdb_saves"] == "0" {
		fact = "none since Redis was started"
	} else if at := number(s.Info["rdb_last_save_time"]); at > 0 {
		fact = "saved at " + time.Unix(at, 0).UTC().Format("2006-01-02 15:04 MST")
	}
	if s.Info["aof_enabled"] == "1" {
		return ok("snapshot", fact, "Not needed: the append-only file has everything.")
	}
	return ok("snapshot", fact, "A restart of Redis begins there, as it has no append-only file.")
}

func checkClock(s *redisclient.Server) Check {
	off := s.Ahead.Round(time.Millisecond)
	if off.Abs() <= maxAhead {
		return ok("clock", "as on this machine", "")
	}
	words := "ahead of"
	if off < 0 {
		words = "behind"
	}
	return warning("clock", fmt.Sprintf("%s %s that of this machine", off.Abs(), words),
		"Signals and expiries go by Redis' clock, certificates and prices by this one: times do not fit together.",
		"Synchronize both machines, for example by chrony.")
}

func checkRoundTrip(s *redisclient.Server) Check {
	fact := fmt.Sprintf("%.2f ms", float64(s.RoundTrip.Microseconds())/1000)
	if s.RoundTrip < slowRoundTrip {
		return ok("round trip", fact, "")
	}
	return warning("round trip", fact, "Each change takes several, so clients wait.",
		"Bring the service near to Redis, or look what keeps Redis or this machine busy.")
}

// checkInstallation checks the installation in the Redis of o, and whether Redis takes changes.
func checkInstallation(ctx context.Context, o redisclient.Options, c configs.Config) []Check {
	const name = "installation"
	found, err := redisclient.Existing(ctx, o)
	installed := err == nil
	var check Check
	switch kind := signal.KindOf(err); {
	case err == nil:
		check = ok(name, fmt.Sprintf("%d partitions", found.Partitions), "")
	case kind == signal.KindNotFound:
		check = warning(name, "none: this Redis has no data of the service", "serve sets it up at its first start.",
			"If the service has run before, correct redis.url or data_dir.")
		found.Partitions = cmp.Or(o.Partitions, 1)
	case kind == signal.KindConflict:
		return []Check{fault(name, err.Error(), "The service does not start.", "Do what the sentence says.")}
	default:
		check := unreachable(o.URL, wayTo(o.URL), err)
		check.Name = name
		return []Check{check}
	}
	client, err := redisclient.NewClient(found)
	if err != nil {
		return []Check{check, fault(nameWrites, err.Error(), "", "Correct redis.url.")}
	}
	began := time.Now()
	err = client.Ready(ctx)
	took := time.Since(began)
	checks := []Check{check}
	if installed {
		checks = append(checks, checkSignals(ctx, client))
	}
	_ = client.Close()
	if err == nil {
		return append(checks, ok(nameWrites, fmt.Sprintf("taken, in %.1f ms", float64(took.Microseconds())/1000), ""))
	}
	reason, _ := redisclient.Refusal(err)
	return append(checks, fault(nameWrites, "refused: "+cmp.Or(reason, err.Error()),
		"/readyz is red. "+refusesChanges, remedy(reason)))
}

// checkSignals compares the signal logs with the record.
func checkSignals(ctx context.Context, client *redisclient.Client) Check {
	short, err := leaves.New(client).Shortened(ctx)
	switch {
	case err != nil:
		return warning(nameSignals, "not compared with the record: "+err.Error(),
			"Whether signals are missing is not known.", "Look at Redis and its log.")
	case len(short) == 0:
		return ok(nameSignals, "none was deleted or replaced", "")
	}
	return fault(nameSignals, fmt.Sprintf("deleted or replaced: those of partitions %v", short),
		"Signals that clients were told of are missing in lists. Others go on.",
		"Restore Redis from a backup; agentsignal audit counts what is missing.")
}

// number returns the number in a field of INFO, or 0.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// bytes returns a number of bytes for people.
func bytes(n int64) string {
	value, unit := float64(n), 0
	for units := len(byteUnits) - 1; value >= 1024 && unit < units; unit++ {
		value /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, byteUnits[unit])
}

var byteUnits = []string{"B", "KB", "MB", "GB", "TB"}
