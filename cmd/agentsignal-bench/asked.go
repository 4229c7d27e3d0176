package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/agents"
)

const (
	askedAgents      = 10 // of the first account; the others have one
	askedConnections = 36 // of the load of all but the one that hangs
	askedShare       = 4  // of the rate that the service reaches, the part of that load
	// hungEvery is the pause between two runs of the one that hangs, of which at most 16 are under way.
	hungEvery = 50 * time.Millisecond
)

// askedEndpoints answer for the agents of accounts at once, and can let one hang.
type askedEndpoints struct {
	server *httptest.Server
	hangs  atomic.Pointer[chan struct{}] // until it is closed
}

const askedReply = `{"direction":"long","stop":{"percent":2},"target":{"r":1.5}}`

// newAskedEndpoints starts the endpoints, at any path. That of the agent that may hang is /hangs.
func newAskedEndpoints() *askedEndpoints {
	e := &askedEndpoints{}
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if free := e.hangs.Load(); free != nil && r.URL.Path == "/hangs" {
			select {
			case <-*free:
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, askedReply)
	}))
	return e
}

func (e *askedEndpoints) stop(context.Context) error {
	e.server.CloseClientConnections()
	e.server.Close()
	return nil
}

func askedID(i int) signal.AgentID { return signal.AgentID(fmt.Sprint("asked_", i)) }

// addAsked gives each account an agent that is asked at e, and the first one askedAgents, of which the last may hang.
func (r *rig) addAsked(ctx context.Context, sealer agents.Sealer, e *askedEndpoints) error {
	store := agents.New(r.store.Client, r.log, sealer)
	for i, account := range r.ids {
		n := 1
		if i == 0 {
			n = askedAgents
		}
		for k := range n {
			a, path := benchAgent, "/answers"
			if k == askedAgents-1 {
				path = "/hangs"
			}
			a.ID, a.Account, a.CreatedAt = askedID(k), account, time.Now()
			a.Endpoint = &signal.Endpoint{URL: e.server.URL + path, Secret: delivery.NewSecret()}
			if _, err := store.Add(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// askedLoad returns a load of runs of the first agents of the first accounts, with the assets and strategies of runLoad.
func (r *rig) askedLoad(s *server, accounts, agents int) *load {
	return &load{addr: s.addr, request: func(connection, n int) []byte {
		key, body := r.keys[connection%accounts], runKinds[(connection+n)%len(runKinds)]
		return httpRequest("POST", "/v1/agents/"+string(askedID(connection%agents))+"/run", key, body)
	}}
}

// asked measures runs of agents that are asked against runs of the service's agents, and what one that hangs costs others.
func (b *runsBenchmark) asked(ctx context.Context, r *rig, s *server, sealer agents.Sealer, runs *load) error {
	endpoints := newAskedEndpoints()
	r.stops.Add("endpoints", endpoints.stop)
	if err := r.addAsked(ctx, sealer, endpoints); err != nil {
		return err
	}
	asked := r.askedLoad(s, len(r.ids), 1)
	if err := asked.warm(ctx); err != nil {
		return err
	}
	got, err := b.inTurns(ctx, s, runs, asked)
	if err != nil {
		return err
	}
	rate := median(got.rates)
	b.row("runs of agents that are asked, 128 connections", "%.0f/s", rate)
	b.row("the service's CPU of one against a run (target 2.2)", "ratio %.2f of %.2f to %.2f", median(got.costs),
		slices.Min(got.costs), slices.Max(got.costs))

	nine := r.askedLoad(s, 1, askedAgents-1)
	var ratios, alone, beside []float64
	for range pairs {
		var p99 [2]time.Duration
		for i := range p99 {
			stop := func() {}
			if i == 1 {
				stop = endpoints.hang(ctx, r, s)
			}
			_, taken, err := nine.run(ctx, askedConnections, b.window, rate/askedShare)
			stop()
			if err != nil {
				return err
			}
			p99[i] = percentile(taken, 99)
		}
		ratios = append(ratios, float64(p99[1])/float64(p99[0]))
		alone, beside = append(alone, float64(p99[0])), append(beside, float64(p99[1]))
	}
	b.row("p99 of nine agents, alone and beside one that hangs", "%s, %s", short(time.Duration(median(alone))),
		short(time.Duration(median(beside))))
	b.row("in turns, 5 pairs (target 1.1)", "ratio %.2f of %.2f to %.2f", median(ratios), slices.Min(ratios), slices.Max(ratios))
	return nil
}

// hang lets the last agent of the first account hang and runs it again and again, until the returned function is called,
// which waits for these runs.
func (e *askedEndpoints) hang(ctx context.Context, r *rig, s *server) (stop func()) {
	free := make(chan struct{})
	e.hangs.Store(&free)
	ctx, cancel := context.WithCancel(ctx)
	var under sync.WaitGroup
	under.Go(func() {
		for tick := time.NewTicker(hungEvery); ctx.Err() == nil; {
			under.Go(func() {
				body := strings.NewReader(runKinds[0])
				address := "http://" + s.addr + "/v1/agents/" + string(askedID(askedAgents-1)) + "/run"
				q, err := http.NewRequest(http.MethodPost, address, body)
				if err != nil {
					panic(err) // the address is valid
				}
				q.Header = http.Header{"Authorization": {"Bearer " + r.keys[0]}, "Content-Type": {"application/json"}}
				if w, err := http.DefaultClient.Do(q); err == nil { // whatever the answer is: most are 429
					w.Body.Close()
				}
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
			}
		}
	})
	return func() {
		cancel()
		close(free)
		e.hangs.Store(nil)
		under.Wait()
	}
}
