package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/leaves"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
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
	servers, err := client.Servers.Inspect(ctx)
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
	err = client.Readiness.Check(ctx)
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
