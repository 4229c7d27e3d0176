package doctor

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/configs"
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
