package cluster

import (
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
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var makeOtherRecordKey = sync.OnceValues(func() (string, error) { return record.NewKey("agentsignal-other") })

func TestTwoNodesAreOneService(t *testing.T) {
	t.Parallel()
	n := e2e.StartNodes(t, "stream")
	// Of an account without signals: the event of one may reach a node after the answer, and its streams then send it.
	n.There, n.Account = n.Second.Account(t)
	n.Here = n.There.At(n.First.URL)
	here, there := n.Here, n.There
	before := there.Signals("").Total

	// What one node has answered, the other lists at once and sends on its stream.
	live := [2]*e2e.Stream{here.Dial(), there.Dial()}
	var made []string
	for i := range 20 {
		ran, asked := here, there
		if i%2 == 1 {
			ran, asked = there, here
		}
		made = append(made, ran.Run("ACME", "momentum").ID)
		asked.Lists("strategy=momentum&limit=1", i+1, made[i])
		asked.Get("/v1/signals/" + made[i]).Ok(t)
	}
	for _, s := range live {
		s.Signals(made...)
	}
	there.Dial().Resumes(live[0], made[9], 10) // on the other node

	// The status shows what each follows, and since when each owns.
	first, second := n.FirstID(t), n.Second
	e2e.Eventually(t, "the status has what both follow", func() bool {
		status, err := service.ReadStatus(t.Context(), second.Store(), second.Config())
		e2e.Must(t, err)
		streams := map[string]bool{}
		for _, node := range status.Nodes {
			streams[node.Node] = slices.Equal(node.Follows["streams"], []int{second.Store().Client.Partition(n.Account.ID)}) &&
				len(node.Follows["owned"]) == node.Owns
		}
		undated := func(p service.PartitionStatus) bool { return p.Since == "" }
		return streams[first] && streams[second.NodeID()] && !slices.ContainsFunc(status.Partitions, undated)
	})

	// An idempotent request is one request, wherever it arrives.
	body, key := e2e.RunBody("ACME", "momentum"), "Idempotency-Key: once"
	answer := here.Post("/v1/agents/trading/run", body, key).Ok(t)
	again := there.Post("/v1/agents/trading/run", body, key).Ok(t)
	if again.Body != answer.Body || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the other node answers %v %s, the first %s", again.Header, again.Body, answer.Body)
	}

	// Jobs that one takes in are done by both: each takes as many at once as it has
	// workers for.
	var mu sync.Mutex
	var jobs []string
	ranThere := func() float64 { return n.Second.Metric(t, "agentsignal_runs_total", `result="completed"`) }
	ranBefore := ranThere()
	e2e.Eventually(t, "the second node runs jobs of the first", func() bool {
		var burst sync.WaitGroup
		for range 20 {
			burst.Go(func() {
				job := here.Submit("ACME", "mean_reversion")
				mu.Lock()
				jobs = append(jobs, job.ID)
				mu.Unlock()
			})
		}
		burst.Wait()
		return ranThere() > ranBefore
	})
	for i, id := range jobs {
		who := []*e2e.Client{here, there}[i%2]
		who.Completed(id)
	}
	if got, want := len(here.AllSignals()), before+len(made)+1+len(jobs); got != want {
		t.Errorf("%d signals are listed, want %d", got, want)
	}

	// Tokens of one node are valid on the other, and what is revoked on one is refused by the
	// other in all requests that begin a second after the answer.
	email := n.Account.Email
	session := here.With(here.With("").Login(email, e2e.Password).Access)
	session.At(there.URL).Get("/v1/account").Ok(t)
	made1 := session.Key("second", "")
	victim := there.With(made1.Secret)
	elsewhere := [2]*e2e.Stream{victim.Dial(), session.At(there.URL).Dial()}
	refusedSoon(t, victim, func() {
		session.Do(http.MethodDelete, "/v1/auth/api-keys/"+made1.ID, "").Want(t, http.StatusNoContent)
	})
	refusedSoon(t, session.At(there.URL), func() { session.Post("/v1/auth/logout", "").Want(t, http.StatusNoContent) })
	for _, s := range elsewhere {
		s.Closes(4401)
	}
}

// A node hands its partitions over as soon as it is asked to end, and answers requests during the
// delay of its shutdown.
func TestANodeHandsOverBeforeItEnds(t *testing.T) {
	t.Parallel()
	n := e2e.StartNodes(t, "stream", "SHUTDOWN_DELAY=1h")
	partitions := n.Second.Partitions()
	if owned := partitions.Owned(); owned == 16 {
		t.Fatal("the second node owns all partitions")
	}
	n.First.Signal(syscall.SIGTERM)
	e2e.Eventually(t, "the second node owns all partitions", func() bool { return partitions.Owned() == 16 })
	made := n.Here.Run("ACME", "momentum")
	n.There.Lists("strategy=momentum", 1, made.ID)
	n.First.Signal(syscall.SIGTERM)
	n.First.Exits(e2e.ExitForced)
}

// refusedSoon revokes what the client has, on another node, and fails the test if a
// request that begins a second later is answered.
func refusedSoon(tb testing.TB, c *e2e.Client, revoke func()) {
	tb.Helper()
	c.Get("/v1/account").Ok(tb)
	revoke()
	revoked := time.Now()
	for {
		begun := time.Now()
		a := c.Get("/v1/account")
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
	n := e2e.StartNodes(t, "stream")
	there := n.There
	e2e.Eventually(t, "both own partitions", func() bool {
		owned := n.Second.Partitions().Owned()
		return owned > 0 && owned < n.Second.Store().Client.Partitions()
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
				job, ran := there.Submit("ACME", "momentum"), there.Run("ACME", "mean_reversion")
				mu.Lock()
				queued, made = append(queued, job.ID), append(made, ran.ID)
				mu.Unlock()
			}
		})
	}
	// It is killed while it holds a job. Its own jobs end too soon, so one is taken in its
	// name; it is stopped before, so that it does not release that job.
	rdb, node := n.Redis.Client(), n.FirstID(t)
	n.First.Signal(syscall.SIGSTOP)
	inItsName := jobs.New(n.Second.Store().Client, node, jobs.Options{})
	e2e.Eventually(t, "the first node holds a job", func() bool {
		taken, err := inItsName.Next(t.Context(), 1)
		return err == nil && len(taken) > 0
	})
	held := heldBy(t, rdb, node)
	n.First.Kill()
	during := there.Run("ACME", "momentum") // runs and lists do not depend on owners
	if p := there.Signals("strategy=momentum&limit=100"); len(p.Signals) == 0 {
		t.Error("nothing is listed")
	}
	calm()

	e2e.Eventually(t, "the second node owns everything", func() bool {
		return n.Second.Partitions().Owned() == n.Second.Store().Client.Partitions()
	})
	seen := map[string]bool{during.ID: true}
	for _, id := range made {
		seen[id] = true
	}
	for _, id := range queued {
		seen[there.Completed(id).Signal.ID] = true
	}
	if heldBy(t, rdb, node) != 0 {
		t.Error("the dead node still holds jobs")
	}
	listed := there.AllSignals()
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

// heldBy returns how many jobs a node has taken and not ended.
func heldBy(tb testing.TB, rdb *redis.Client, node string) (total int64) {
	tb.Helper()
	for p := range redisclient.NewPartitions {
		held, err := rdb.XPending(tb.Context(), e2e.NewKeys.JobQueueKey(p), "jobs").Result()
		if err == nil {
			total += held.Consumers[node]
		}
	}
	return total
}

// TestARequestOfAKilledNodeCanBeRepeated at the other node, although its lock still exists.
func TestARequestOfAKilledNodeCanBeRepeated(t *testing.T) {
	t.Parallel()
	n := e2e.StartNodes(t, "stream")
	node, rdb := n.FirstID(t), n.Redis.Client()
	words := strings.Fields(rdb.HGet(t.Context(), "{node}:processes", node).Val()) // until, nonce, place
	if len(words) < 3 {
		t.Fatalf("the first node has published %q", words)
	}
	key := signal.ReplyKey{Method: http.MethodPost, Path: "/v1/agents/trading/run", Key: "once",
		Claim: node + " " + words[1] + " 1"}
	requests := n.Second.Store().Requests
	if r, err := requests.Claim(t.Context(), n.Account.ID, key); r != nil || err != nil {
		t.Fatalf("claim: %v, %v", r, err)
	}
	p := n.Second.Store().Client.Partition(n.Account.ID)
	lock := n.Second.Store().Client.ReplyKey(p, n.Account.ID, codec.ReplyDigest(&key))
	rdb.Persist(t.Context(), lock) // so that only the end of its process makes it void
	repeat := func() e2e.Answer {
		return n.There.Post(key.Path, e2e.RunBody("ACME", "momentum"), "Idempotency-Key: once")
	}
	if a := repeat(); a.Status == http.StatusOK {
		t.Errorf("a request that is under way is repeated: %s", a.Body)
	}
	n.First.Kill()
	var first e2e.Answer
	stood := false
	e2e.Eventually(t, "the request is answered", func() bool {
		ttl, err := rdb.TTL(t.Context(), lock).Result()
		stood = err == nil && ttl == -1 // it exists, and does not expire
		first = repeat()
		return first.Status == http.StatusOK
	})
	if live, err := n.Second.Store().Logs.Nodes.ProcessLive(t.Context(), node, words[1]); !stood || live || err != nil {
		t.Errorf("answered with a lock that stood: %t, of a process that is live: %t, %v", stood, live, err)
	}
	if again := repeat(); again.Body != first.Body {
		t.Errorf("the same request is answered with %s, then %s", first.Body, again.Body)
	}
}
