package service

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// sharedKeys are the signing keys of the nodes.
var sharedKeys = "main:" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// nodes are two services on one Redis: the first can be killed. here and there are
// clients of the nodes for the same account.
type nodes struct {
	redis       *redistest.Server
	first       *child
	second      *service
	here, there *client
	account     credential.Account
}

// startNodes starts both, with prices of ACME. One signal has been made then. sources are
// stream and more, env more settings of the first.
func startNodes(tb testing.TB, sources string, env ...string) nodes {
	tb.Helper()
	n := nodes{redis: redistest.New(tb)}
	n.first = launch(tb, childSettings(tb, n.redis.URL(), append(env, "CLUSTER=true", "AUTH_JWT_KEYS="+sharedKeys,
		"SECURITY_ENCRYPTION_KEYS="+sharedKeys, "SECURITY_RECORD_KEYS="+sharedRecordKey(tb), "LEASE=6s",
		"MARKET_SOURCE="+sources, "WEBHOOKS_ALLOWED_NETWORKS="+loopback)...)...)
	c := testConfig(tb, n.redis.URL())
	c.Market.Source = sources
	c.Cluster, c.Lease = true, configs.Duration(6*time.Second)
	c.Webhooks.AllowedNetworks = []string{loopback}
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(sharedKeys), configs.Secret(sharedKeys)
	c.Security.RecordKeys = configs.Secret(sharedRecordKey(tb))
	n.second = start(tb, c)
	n.first.awaitReady(tb)
	newMarket(tb, n.redis.Client()).open("ACME", "101.25")
	n.second.awaitPrices(tb, "ACME", signal.H1)
	n.there, n.account = n.second.account(tb)
	n.here = n.there.at(n.first.url)
	n.here.awaitRun("ACME", "breakout")
	return n
}

var makeRecordKey = sync.OnceValues(func() (string, error) { return record.NewKey("agentsignal-test") })

var makeOtherRecordKey = sync.OnceValues(func() (string, error) { return record.NewKey("agentsignal-other") })

// sharedRecordKey returns the key that signs the record of all nodes.
func sharedRecordKey(tb testing.TB) string {
	tb.Helper()
	key, err := makeRecordKey()
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func TestTwoNodesAreOneService(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream")
	// Of an account without signals: the event of one may reach a node after the answer, and its streams then send it.
	n.there, n.account = n.second.account(t)
	n.here = n.there.at(n.first.url)
	here, there := n.here, n.there
	before := there.signals("").Total

	// What one node has answered, the other lists at once and sends on its stream.
	live := [2]*stream{here.dial(), there.dial()}
	var made []string
	for i := range 20 {
		ran, asked := here, there
		if i%2 == 1 {
			ran, asked = there, here
		}
		made = append(made, ran.run("ACME", "momentum").ID)
		asked.lists("strategy=momentum&limit=1", i+1, made[i])
		asked.get("/v1/signals/" + made[i]).ok(t)
	}
	for _, s := range live {
		s.signals(made...)
	}
	there.dial().resumes(live[0], made[9], 10) // on the other node

	// The status shows what each follows, and since when each owns.
	first, second := n.firstID(t), n.second.process
	eventually(t, "the status has what both follow", func() bool {
		status, err := readStatus(t.Context(), second.store, second.config)
		must(t, err)
		streams := map[string]bool{}
		for _, node := range status.Nodes {
			streams[node.Node] = slices.Equal(node.Follows["streams"], []int{second.store.Client.Partition(n.account.ID)}) &&
				len(node.Follows["owned"]) == node.Owns
		}
		undated := func(p PartitionStatus) bool { return p.Since == "" }
		return streams[first] && streams[second.node] && !slices.ContainsFunc(status.Partitions, undated)
	})

	// An idempotent request is one request, wherever it arrives.
	body, key := runBody("ACME", "momentum"), "Idempotency-Key: once"
	answer := here.post("/v1/agents/trading/run", body, key).ok(t)
	again := there.post("/v1/agents/trading/run", body, key).ok(t)
	if again.Body != answer.Body || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the other node answers %v %s, the first %s", again.Header, again.Body, answer.Body)
	}

	// Jobs that one takes in are done by both: each takes as many at once as it has
	// workers for.
	var mu sync.Mutex
	var jobs []string
	ranThere := func() float64 { return n.second.metric(t, "agentsignal_runs_total", `result="completed"`) }
	ranBefore := ranThere()
	eventually(t, "the second node runs jobs of the first", func() bool {
		var burst sync.WaitGroup
		for range 20 {
			burst.Go(func() {
				job := here.submit("ACME", "mean_reversion")
				mu.Lock()
				jobs = append(jobs, job.ID)
				mu.Unlock()
			})
		}
		burst.Wait()
		return ranThere() > ranBefore
	})
	for i, id := range jobs {
		who := []*client{here, there}[i%2]
		who.completed(id)
	}
	if got, want := len(here.allSignals()), before+len(made)+1+len(jobs); got != want {
		t.Errorf("%d signals are listed, want %d", got, want)
	}

	// Tokens of one node are valid on the other, and what is revoked on one is refused by the
	// other in all requests that begin a second after the answer.
	email := n.account.Email
	session := here.with(here.with("").login(email, password).Access)
	session.at(there.url).get("/v1/account").ok(t)
	made1 := session.key("second", "")
	victim := there.with(made1.Secret)
	elsewhere := [2]*stream{victim.dial(), session.at(there.url).dial()}
	refusedSoon(t, victim, func() {
		session.do(http.MethodDelete, "/v1/auth/api-keys/"+made1.ID, "").want(t, http.StatusNoContent)
	})
	refusedSoon(t, session.at(there.url), func() { session.post("/v1/auth/logout", "").want(t, http.StatusNoContent) })
	for _, s := range elsewhere {
		s.closes(4401)
	}
}

// A node hands its partitions over as soon as it is asked to end, and answers requests during the
// delay of its shutdown.
func TestANodeHandsOverBeforeItEnds(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream", "SHUTDOWN_DELAY=1h")
	partitions := n.second.process.joined.Load()
	if owned := partitions.Owned(); owned == 16 {
		t.Fatal("the second node owns all partitions")
	}
	n.first.signal(syscall.SIGTERM)
	eventually(t, "the second node owns all partitions", func() bool { return partitions.Owned() == 16 })
	made := n.here.run("ACME", "momentum")
	n.there.lists("strategy=momentum", 1, made.ID)
	n.first.signal(syscall.SIGTERM)
	n.first.exits(exitForced)
}

// refusedSoon revokes what the client has, on another node, and fails the test if a
// request that begins a second later is answered.
func refusedSoon(tb testing.TB, c *client, revoke func()) {
	tb.Helper()
	c.get("/v1/account").ok(tb)
	revoke()
	revoked := time.Now()
	for {
		begun := time.Now()
		a := c.get("/v1/account")
		if a.Status == http.StatusUnauthorized {
			return
		}
		if begun.Sub(revoked) > time.Second {
			tb.Errorf("%s after it was revoked the credential is answered with %d", begun.Sub(revoked), a.Status)
			return
		}
	}
}

func TestTheOtherNodeGoesOnWhenOneIsKilled(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream")
	there := n.there
	eventually(t, "both own partitions", func() bool {
		owned := n.second.process.joined.Load().Owned()
		return owned > 0 && owned < n.second.process.store.Client.Partitions()
	})
	var mu sync.Mutex
	queued, made := []string{}, []string{}
	done := make(chan struct{})
	var wg sync.WaitGroup
	calm := sync.OnceFunc(func() { close(done); wg.Wait() })
	defer calm()
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				job, ran := there.submit("ACME", "momentum"), there.run("ACME", "mean_reversion")
				mu.Lock()
				queued, made = append(queued, job.ID), append(made, ran.ID)
				mu.Unlock()
			}
		})
	}
	// It is killed while it holds a job. Its own jobs end too soon, so one is taken in its
	// name; it is stopped before, so that it does not release that job.
	rdb, node := n.redis.Client(), n.firstID(t)
	n.first.signal(syscall.SIGSTOP)
	inItsName := jobs.New(n.second.process.store.Client, node, jobs.Options{})
	eventually(t, "the first node holds a job", func() bool {
		taken, err := inItsName.Next(t.Context(), 1)
		return err == nil && len(taken) > 0
	})
	held := heldBy(t, rdb, node)
	n.first.kill()
	during := there.run("ACME", "momentum") // runs and lists do not depend on owners
	if p := there.signals("strategy=momentum&limit=100"); len(p.Signals) == 0 {
		t.Error("nothing is listed")
	}
	calm()

	eventually(t, "the second node owns everything", func() bool {
		return n.second.process.joined.Load().Owned() == n.second.process.store.Client.Partitions()
	})
	seen := map[string]bool{during.ID: true}
	for _, id := range made {
		seen[id] = true
	}
	for _, id := range queued {
		seen[there.completed(id).Signal.ID] = true
	}
	if heldBy(t, rdb, node) != 0 {
		t.Error("the dead node still holds jobs")
	}
	listed := there.allSignals()
	for _, s := range listed {
		delete(seen, s.ID)
	}
	if len(seen) > 0 {
		t.Errorf("%d acknowledged signals are not listed", len(seen))
	}
	if want := len(made) + len(queued) + 2; len(listed) > want {
		t.Errorf("%d signals are listed, want %d: a job has two", len(listed), want)
	}
	t.Logf("%d jobs, %d of them of the dead node when it died", len(queued), held)
}

// firstID returns the id of the first node.
func (n nodes) firstID(tb testing.TB) string {
	tb.Helper()
	live, err := n.redis.Client().ZRange(tb.Context(), "{node}:live", 0, -1).Result()
	must(tb, err)
	for _, member := range live {
		if id, _, _ := strings.Cut(member, " "); id != n.second.process.node {
			return id
		}
	}
	tb.Fatalf("the first node is not among %v", live)
	return ""
}

// heldBy returns how many jobs a node has taken and not ended.
func heldBy(tb testing.TB, rdb *redis.Client, node string) (total int64) {
	tb.Helper()
	for p := range redisclient.NewPartitions {
		held, err := rdb.XPending(tb.Context(), newKeys.JobQueueKey(p), "jobs").Result()
		if err == nil {
			total += held.Consumers[node]
		}
	}
	return total
}

// TestARequestOfAKilledNodeCanBeRepeated at the other node, although its lock still exists.
func TestARequestOfAKilledNodeCanBeRepeated(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream")
	node, rdb := n.firstID(t), n.redis.Client()
	words := strings.Fields(rdb.HGet(t.Context(), "{node}:processes", node).Val()) // until, nonce, place
	if len(words) < 3 {
		t.Fatalf("the first node has published %q", words)
	}
	key := signal.ReplyKey{Method: http.MethodPost, Path: "/v1/agents/trading/run", Key: "once",
		Claim: node + " " + words[1] + " 1"}
	requests := n.second.process.store.Requests
	if r, err := requests.Claim(t.Context(), n.account.ID, key); r != nil || err != nil {
		t.Fatalf("claim: %v, %v", r, err)
	}
	p := n.second.process.store.Client.Partition(n.account.ID)
	lock := n.second.process.store.Client.ReplyKey(p, n.account.ID, codec.ReplyDigest(&key))
	rdb.Persist(t.Context(), lock) // so that only the end of its process makes it void
	repeat := func() answer {
		return n.there.post(key.Path, runBody("ACME", "momentum"), "Idempotency-Key: once")
	}
	if a := repeat(); a.Status == http.StatusOK {
		t.Errorf("a request that is under way is repeated: %s", a.Body)
	}
	n.first.kill()
	var first answer
	stood := false
	eventually(t, "the request is answered", func() bool {
		ttl, err := rdb.TTL(t.Context(), lock).Result()
		stood = err == nil && ttl == -1 // it exists, and does not expire
		first = repeat()
		return first.Status == http.StatusOK
	})
	if live, err := n.second.process.store.Logs.ProcessLive(t.Context(), node, words[1]); !stood || live || err != nil {
		t.Errorf("answered with a lock that stood: %t, of a process that is live: %t, %v", stood, live, err)
	}
	if again := repeat(); again.Body != first.Body {
		t.Errorf("the same request is answered with %s, then %s", first.Body, again.Body)
	}
}
