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
	nameServer = "server"
	nameFile   = "append-only file"
	nameWrites = "writes"
)

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
	if err != nil {
		return []Check{unreachable(way, err)}
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

// unreachable returns the check of a Redis that does not answer.
func unreachable(way string, err error) Check {
	const meaning = "The service starts, is not ready and waits; a running one answers 503 to changes. Nothing is lost by that."
	if reason, setting := redisclient.Refusal(err); setting {
		return fault(nameServer, reason+" ("+way+")", meaning, "Correct the user, its password or its rights.")
	}
	text := err.Error()
	if e, isOurs := errors.AsType[*signal.Error](err); isOurs && e.Cause != nil {
		text = e.Cause.Error()
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
		return fault(nameServer, fact+"; it is loading its data", "Changes answer 503 until it has.", "Wait.")
	case s.Info["role"] == "slave":
		return fault(nameServer, fact+"; it is a replica", "It takes no changes, so the service is not ready.",
			"Set redis.url to the master, or to sentinels.")
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
			"What a client was told is kept as far as this server keeps it.", "Ask who runs it.")
	case s.Info["aof_enabled"] != "1":
		return warning(nameFile, "none", "A restart of Redis loses what clients were told since its last snapshot, or all.",
			"Set appendonly yes in Redis.")
	case s.Info["aof_last_write_status"] == "err":
		return fault(nameFile, "Redis could not write to it",
			"Changes answer 503 until it can. What clients were told before is kept.",
			"Free its disk, or look at the log of Redis.")
	case s.Info["aof_last_bgrewrite_status"] == "err":
		return warning(nameFile, "its last rewrite failed; "+fsync, "It is kept, and grows until the disk is full.",
			"Free its disk, or look at the log of Redis.")
	case child:
		return ok(nameFile, "written at each change, synced every second", "A power cut may lose the last second.")
	case s.Fsync == "no":
		return warning(nameFile, fsync, "A crash of the machine may lose half a minute of what clients were told.",
			"Set appendfsync everysec or always in Redis.")
	case s.Fsync == "always":
		return ok(nameFile, fsync, "A power cut loses nothing that a client was told.")
	}
	return ok(nameFile, fsync, "With everysec, a power cut may lose the last second or two.")
}

func checkEviction(s *redisclient.Server) Check {
	policy := cmp.Or(s.Info["maxmemory_policy"], "not known")
	switch {
	case s.Evicts() != "":
		return fault("eviction", "maxmemory-policy "+policy,
			"A full Redis removes what clients were told is kept, so the service does not start.",
			"Set maxmemory-policy noeviction in Redis.")
	case policy != "noeviction":
		return ok("eviction", policy+", without effect as maxmemory is 0",
			"With a limit it would remove what clients were told is kept, and the service would not start.")
	}
	return ok("eviction", "none (noeviction)", "A full Redis refuses changes, and removes nothing.")
}

func checkMemory(s *redisclient.Server) Check {
	used, limit := number(s.Info["used_memory"]), number(s.Info["maxmemory"])
	fact := fmt.Sprintf("%s of %s", bytes(used), bytes(limit))
	if limit == 0 {
		limit = number(s.Info["total_system_memory"])
		fact = fmt.Sprintf("%s; no maxmemory, the machine has %s", bytes(used), bytes(limit))
	}
	const do = "Raise maxmemory, or shorten signals.retention and webhooks.keep."
	switch share := float64(used) / float64(max(limit, 1)); {
	case limit == 0:
		return ok("memory", bytes(used)+"; the limit is not known", "")
	case share >= 1:
		return fault("memory", fact, "It is full: changes answer 503. What clients were told is kept.", do)
	case share >= fullShare:
		return warning("memory", fact, "When it is full, changes answer 503. What clients were told is kept.", do)
	}
	return ok("memory", fact, "")
}

func checkReplicas(s *redisclient.Server, c configs.Redis) Check {
	connected := int(number(s.Info["connected_slaves"]))
	fact := fmt.Sprintf("%d connected, redis.wait_replicas %d", connected, c.WaitReplicas)
	switch {
	case connected < c.WaitReplicas && c.WithoutReplicas == configs.AcceptWithoutReplicas:
		return warning("replicas", fact, "Changes are acknowledged without them, and a failover may lose these.",
			"Start the replicas.")
	case connected < c.WaitReplicas:
		return fault("replicas", fact, "Changes answer 503: they must be on that many replicas.",
			"Start the replicas, or lower redis.wait_replicas.")
	case connected > 0 && c.WaitReplicas == 0:
		return warning("replicas", fact, "A failover may lose changes that clients were told are stored.",
			"Set redis.wait_replicas to 1.")
	case connected == 0:
		return ok("replicas", fact, "What clients were told is as safe as the disk of this server.")
	}
	return ok("replicas", fact, "A failover to a replica that has confirmed a change loses nothing.")
}

func checkSnapshot(s *redisclient.Server) Check {
	if s.Info["rdb_last_bgsave_status"] == "err" {
		return warning("snapshot", "the last background save failed",
			"With save points Redis then refuses changes; copies of the file are old.",
			"Free its disk, or look at the log of Redis.")
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
	return warning("round trip", fact, "Each change takes several: clients wait. Nothing is lost by that.",
		"Bring the service near to Redis, or look what keeps Redis or this machine busy.")
}

// checkInstallation checks the installation in the Redis of o, and whether Redis takes changes.
func checkInstallation(ctx context.Context, o redisclient.Options, c configs.Config) []Check {
	const name = "installation"
	found, err := redisclient.Existing(ctx, o)
	var check Check
	reason, _ := redisclient.Refusal(err)
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
		return []Check{fault(name, cmp.Or(reason, err.Error()), "The service is not ready, and waits.",
			"Look at Redis and at the rights of its user.")}
	}
	client, err := redisclient.NewClient(found)
	if err != nil {
		return []Check{check, fault(nameWrites, err.Error(), "", "Correct redis.url.")}
	}
	began := time.Now()
	err = client.Ready(ctx)
	took := time.Since(began)
	_ = client.Close()
	if err == nil {
		return []Check{check, ok(nameWrites, fmt.Sprintf("taken, in %.1f ms", float64(took.Microseconds())/1000), "")}
	}
	reason, _ = redisclient.Refusal(err)
	return []Check{check, fault(nameWrites, "refused: "+cmp.Or(reason, err.Error()),
		"Changes answer 503 and /readyz is red. What clients were told before is kept.", whatToDo(reason))}
}

// whatToDo returns the remedy for a reason of redisclient.Refusal.
func whatToDo(reason string) string {
	for part, do := range map[string]string{
		"full":      "Raise maxmemory, or shorten signals.retention and webhooks.keep.",
		"disk":      "Free the disk of Redis.",
		"read-only": "Set redis.url to the master, or to sentinels.",
		"replicas":  "Start the replicas, or lower redis.wait_replicas.",
		"rights":    "Give the user of redis.url the rights of deploy/redis/users.acl.",
	} {
		if strings.Contains(reason, part) {
			return do
		}
	}
	return "Look at Redis and its log."
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
