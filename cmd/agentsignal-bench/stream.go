package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	streamAssets   = 20
	streamEach     = 2                // assets of a connection
	streamInFlight = 40               // maximum of signals on their way to clients
	settling       = 15 * time.Second // until memory is measured after the last connection
	serverCPU      = 0
	loadCPU        = 1
)

// Paths of the service's stream.
const (
	socketsPath = "/v1/ws/dashboard"
	eventsPath  = "/v1/sse/dashboard"
)

// streamRates are signals per second of the latency figures, by the number of connections.
var streamRates = map[int][]float64{1000: {300, 900}, 2000: {250}, 10_000: {50, 100}}

// publisher sends a signal of an asset, with the number n in its payload.
type publisher func(ctx context.Context, asset string, n uint32) error

// streamBenchmark is the benchmark stream.
type streamBenchmark struct {
	*report
}

// measure measures the fan-out of the dashboard stream: the server on one processor; load,
// Redis and the publisher on the other. The reference is a server that only writes the same
// frames to the same connections.
func (b *streamBenchmark) measure(ctx context.Context) (err error) {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("this benchmark needs two processors")
	}
	if err := pinLoad(); err != nil {
		return err
	}
	for _, connections := range []int{1000, 10_000} {
		bare, err := b.bareFanOut(ctx, connections)
		if err != nil {
			return fmt.Errorf("bare server, %d connections: %w", connections, err)
		}
		ours, err := b.serviceFanOut(ctx, connections)
		if err != nil {
			return fmt.Errorf("service, %d connections: %w", connections, err)
		}
		b.row(fmt.Sprintf("%d connections, %d signals in flight", connections, streamInFlight),
			"%.0f delivered/s, %.2f us CPU each", ours.rate, ours.cost)
		b.row("  bare server", "%.0f delivered/s, %.2f us CPU each", bare.rate, bare.cost)
		b.row("  ratio of rates (target at least 0.7)", "%.2f", ours.rate/bare.rate)
		b.pacedRows("  at", ours)
		b.pacedRows("  bare server at", bare)
		b.row("  accepted", "%.0f/s, %.0f us CPU each (bare %.0f/s, %.0f us)",
			ours.accepted, ours.acceptCost, bare.accepted, bare.acceptCost)
		b.row("  memory of an idle connection", "%d bytes (bare %d)", ours.memory, bare.memory)
	}
	return nil
}

// pinLoad has this process use one processor. It has several threads for that, so that the
// kernel divides it between the reading of all sockets and the publisher, which would be late otherwise.
func pinLoad() error {
	runtime.GOMAXPROCS(4)
	return pinProcess(os.Getpid(), loadCPU)
}

// pacedRows reports the latencies of a server.
func (b *streamBenchmark) pacedRows(what string, f fanOut) {
	for _, p := range f.paced {
		b.row(fmt.Sprintf("%s %.0f signals/s", what, p.rate), "%s, p90 %s, %.2f us CPU each",
			latencies(p.taken), short(percentile(p.taken, 90)), p.cost)
	}
}

// pacedFanOut holds the latencies at a rate of signals per second.
type pacedFanOut struct {
	rate, cost float64
	taken      []time.Duration
}

// fanOut holds the figures of one server. Costs are microseconds of CPU each.
type fanOut struct {
	rate, cost float64 // deliveries per second
	paced      []pacedFanOut
	accepted   float64 // connections per second
	acceptCost float64
	memory     int64 // resident bytes per connection
}

func (b *streamBenchmark) serviceFanOut(ctx context.Context, connections int) (_ fanOut, err error) {
	r, s, err := newService(ctx, 1, streamSettings...)
	if err != nil {
		return fanOut{}, err
	}
	defer r.end(ctx, &err)
	return b.fanOut(ctx, s, streamClients{connections, connections, filteredPath(socketsPath, r.keys[0])}, r.publish)
}

// streamSettings are those of a service whose stream is measured.
var streamSettings = []string{"GOMAXPROCS=1", "AGENTSIGNAL_DASHBOARD_MAX_CONNECTIONS=20000", withTicks}

// filteredPath returns the path of a client that asks for signals of its assets by a key.
func filteredPath(path, key string) func(i int, assets string) string {
	return func(_ int, assets string) string {
		return path + "?channels=signal.new&assets=" + assets + "&api_key=" + key
	}
}

func (b *streamBenchmark) bareFanOut(ctx context.Context, connections int) (fanOut, error) {
	s, err := startServer([]string{"GOMAXPROCS=1"}, ownProgram, "bare-server")
	if err != nil {
		return fanOut{}, err
	}
	defer s.stop(ctx)
	if err := s.waitFor(ctx, "/"); err != nil {
		return fanOut{}, err
	}
	feed, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return fanOut{}, err
	}
	defer feed.Close()
	if _, err := io.WriteString(feed, "GET /publish HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil {
		return fanOut{}, err
	}
	var mu sync.Mutex // guards message, and feed against others
	var message []byte
	publish := func(_ context.Context, asset string, n uint32) error {
		mu.Lock()
		defer mu.Unlock()
		// The frame is made here, since the reference only writes.
		text := []byte(`{"type":"signal.new","id":"1795253400000-0","data":`)
		text = append(text, streamPayload(asset, n)...)
		text = append(text, `,"timestamp":"2026-11-21T09:30:00.000Z"}`...)
		message = binary.BigEndian.AppendUint32(message[:0], uint32(len(asset)+1+4+len(text)))
		message = append(message, byte(len(asset)))
		message = append(message, asset...)
		message = append(message, 0x81, 126, byte(len(text)>>8), byte(len(text)))
		_, err := feed.Write(append(message, text...))
		return err
	}
	path := func(_ int, assets string) string { return "/stream?assets=" + assets }
	return b.fanOut(ctx, s, streamClients{connections, connections, path}, publish)
}

// streamPayload returns the data of a signal.new message with the number n; see eventNumber.
func streamPayload(asset string, n uint32) []byte {
	return fmt.Appendf(nil,
		`{"signal_id":"sig_01M7YQ1WTVKN9DZNWV%010d","agent_id":"trading","asset":"%s","strategy":"momentum",`+
			`"direction":"long","confidence":0.4372,"entry_price":64250.125,"stop_loss":62900.125,`+
			`"take_profit":66275.125,"metadata":{"indicators":["ema_12_26","adx_14"],`+
			`"reasoning":"ADX 27 confirms."}}`, n, asset)
}

// connect opens the connections of load and measures their cost for the server.
func (f *fanOut) connect(ctx context.Context, s *server, load *streamLoad, settling time.Duration) error {
	connections := len(load.clients)
	var took, used time.Duration
	bytes, err := during(s.resident, func() (err error) {
		used, err = during(s.cpu, func() (err error) {
			took, err = load.connect(ctx)
			return err
		})
		time.Sleep(settling)
		return err
	})
	f.accepted = float64(connections) / took.Seconds()
	f.acceptCost = float64(used.Microseconds()) / float64(connections)
	f.memory = bytes / int64(connections)
	return err
}

// fanOut measures one server.
func (b *streamBenchmark) fanOut(
	ctx context.Context, s *server, clients streamClients, publish publisher,
) (f fanOut, err error) {
	if err := s.pin(serverCPU); err != nil {
		return f, err
	}
	load, err := newStreamLoad(s.addr, clients)
	if err != nil {
		return f, err
	}
	defer load.close()
	if err := f.connect(ctx, s, load, settling); err != nil {
		return f, err
	}
	go load.read(ctx)

	if err := load.saturate(ctx, publish, b.window/2); err != nil { // to warm up
		return f, err
	}
	cost := func(run func() error) (rate, each float64, err error) {
		var took time.Duration
		before := load.received.Load()
		used, err := during(s.cpu, func() error {
			start := time.Now()
			defer func() { took = time.Since(start) }()
			return run()
		})
		delivered := float64(load.received.Load() - before)
		return delivered / took.Seconds(), float64(used.Microseconds()) / delivered, err
	}
	if f.rate, f.cost, err = cost(func() error { return load.saturate(ctx, publish, b.window) }); err != nil {
		return f, err
	}
	for _, rate := range streamRates[clients.connections] {
		_, each, err := cost(func() error { return load.pace(ctx, publish, b.window, rate) })
		if err != nil {
			return f, err
		}
		f.paced = append(f.paced, pacedFanOut{rate, each, slices.Clone(load.taken)})
	}
	return f, nil
}
