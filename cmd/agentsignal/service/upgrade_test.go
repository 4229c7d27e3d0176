package service

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// earlierCommit is a build without published settings and claims.
const earlierCommit = "35d8b95"

// earlierProgram builds the program as of earlierCommit and returns its path, or skips the test if the
// history does not have it.
func earlierProgram(t *testing.T) string {
	t.Helper()
	if err := exec.Command("git", "cat-file", "-e", earlierCommit+"^{commit}").Run(); err != nil {
		t.Skipf("the history does not have commit %s (%v): clone the repository with it", earlierCommit, err)
	}
	dir := t.TempDir()
	unpack := exec.Command("sh", "-c", `git -C "$(git rev-parse --show-toplevel)" archive "$0" | tar -x -C "$1"`,
		earlierCommit, dir)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack commit %s: %v\n%s", earlierCommit, err, out)
	}
	path := filepath.Join(dir, "earlier")
	began := time.Now()
	defer func() { t.Logf("built within %s", time.Since(began)) }()
	build := staticBuild(path, "./cmd/agentsignal")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build commit %s: %v\n%s", earlierCommit, err, out)
	}
	return path
}

// upgrade is two builds on one Redis, with accounts that have a webhook each.
type upgrade struct {
	t       *testing.T
	redis   *redistest.Server
	logs    *eventlog.Store
	traders []*client
	ends    []*hookEndpoint
	made    []map[string]int // ids of the signals of each account, each once
}

// owned waits until each partition has one of the nodes as owner, and each node has some.
func (u *upgrade) owned(what string, nodes ...*child) {
	u.t.Helper()
	began := time.Now()
	defer func() { u.t.Logf("%s: owned after %s", what, time.Since(began)) }()
	ids := map[string]bool{}
	for _, c := range nodes {
		ids[c.nodeID()] = true
	}
	eventually(u.t, what+": all partitions are owned by live nodes", func() bool {
		owners := map[string]int{}
		for p := range 16 {
			lease, _ := u.redis.Client().Get(u.t.Context(), fmt.Sprintf("{p%02d}:owner", p)).Result()
			owner, _, _ := strings.Cut(lease, " ")
			if !ids[owner] {
				return false
			}
			owners[owner]++
		}
		return len(owners) == len(ids)
	})
}

// nodeID returns the id that the child has logged.
func (c *child) nodeID() string {
	line := c.log.Line(`"msg":"agentsignal listens"`)
	return decode[struct{ Node string }](c.tb, line).Node
}

// inRounds checks whether ticks may be written in rounds, which the earlier build does not read.
func (u *upgrade) inRounds(what string, want bool) {
	u.t.Helper()
	if got, err := readRounds(u.t.Context(), u.logs); got != want || err != nil {
		u.t.Errorf("%s: all nodes read rounds of ticks: %v, %v; want %v", what, got, err, want)
	}
}

// works runs agents for all accounts on each node, and checks the lists and deliveries on all.
func (u *upgrade) works(what string, nodes ...*child) {
	u.t.Helper()
	began := time.Now()
	defer func() { u.t.Logf("%s: works after %s", what, time.Since(began)) }()
	for i, trader := range u.traders {
		for _, c := range nodes {
			key := fmt.Sprintf("Idempotency-Key: %s %s", what, c.nodeID())
			first := trader.at(c.url).post("/v1/agents/trading/run", runBody("ACME", "momentum"), key).ok(u.t)
			again := trader.at(nodes[0].url).post("/v1/agents/trading/run", runBody("ACME", "momentum"), key).ok(u.t)
			if again.Body != first.Body {
				u.t.Errorf("%s: a repeated request is answered with %s, the first with %s", what, again.Body, first.Body)
			}
			u.made[i][decode[wireSignal](u.t, first.Body).ID]++
		}
	}
	for i, trader := range u.traders {
		for _, c := range nodes {
			listed := map[string]int{}
			for _, s := range trader.at(c.url).allSignals() {
				listed[s.ID]++
			}
			if !sameCounts(listed, u.made[i]) {
				u.t.Errorf("%s: account %d has the signals %v at %s, want %v", what, i, listed, c.url, u.made[i])
			}
		}
		eventually(u.t, what+": all signals are delivered", func() bool {
			got := signalsIn(u.t, u.ends[i].got())
			for id := range u.made[i] {
				if got[id] == 0 {
					return false
				}
			}
			return true
		})
	}
}

// TestTwoBuildsAreOneService: during a rolling upgrade, and when it is taken back.
func TestTwoBuildsAreOneService(t *testing.T) {
	t.Parallel()
	earlier := earlierProgram(t)
	u := &upgrade{t: t, redis: redistest.New(t)}
	u.logs = eventlog.New(storetest.Client(t, redisclient.Options{URL: u.redis.URL(), Partitions: 16}))
	settings := func() []string {
		return childSettings(t, u.redis.URL(), "CLUSTER=true", "AUTH_JWT_KEYS="+sharedKeys,
			"SECURITY_ENCRYPTION_KEYS="+sharedKeys, "SECURITY_RECORD_KEYS="+sharedRecordKey(t), "LEASE=6s",
			"AUTH_REGISTRATION=open", "WEBHOOKS_ALLOWED_NETWORKS="+loopback)
	}
	begin := func(path string) *child {
		c := spawnProgram(t, path, []string{"serve"}, settings()...)
		c.awaitAddress(t)
		return c
	}
	old := begin(earlier)
	other := old.newTrader(t, u.redis) // an account whose signals do not count
	join := func(path string) *child {
		c := begin(path)
		c.awaitReady(t)
		other.at(c.url).awaitRun("ACME", "breakout")
		return c
	}
	for range 4 {
		trader, end := register(old.client(t)), newHookEndpoint(t, nil)
		earlierAnswers := *trader // the API's description is that of the present build
		earlierAnswers.http = &http.Client{Transport: trader.base, Timeout: patience}
		earlierAnswers.hook(end.url)
		u.traders, u.ends, u.made = append(u.traders, trader), append(u.ends, end), append(u.made, map[string]int{})
	}
	u.owned("the earlier build alone", old)
	u.works("the earlier build alone", old)

	present := join(program(t))
	u.owned("the present build has joined", old, present)
	u.works("the present build has joined", present, old)
	u.inRounds("the present build has joined", false)

	old.signal(syscall.SIGTERM)
	old.exits(0)
	u.owned("the earlier build has left", present)
	u.works("the earlier build has left", present)
	u.inRounds("the earlier build has left", true)

	old = join(earlier)
	u.owned("the earlier build is back", old, present)
	u.works("the earlier build is back", old, present)

	present.kill()
	u.owned("the present build was killed", old)
	u.works("the present build was killed", old)
}
