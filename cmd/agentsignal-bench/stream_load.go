package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// streamLoad is many clients of a stream in one process. One goroutine reads all sockets, so
// that the clients cost little of the machine that they share with the server.
type streamLoad struct {
	addr      string
	receivers map[string]int64
	names     []string

	epoll   int
	clients []streamClient
	byFD    []int32 // number of the client by descriptor

	received atomic.Int64 // signals read
	expected atomic.Int64 // signals to be read in total

	n    uint32
	sent [1 << 16]atomic.Int64 // time at which signal n was due, by n modulo the length, in ns

	patient  atomic.Bool     // for throughput: read less often, and more at once
	record   atomic.Bool     // record latencies
	recorded []time.Duration // owned by the reading goroutine while record is set
	taken    []time.Duration // of the last pace
	failed   atomic.Pointer[error]
}

// streamClient is one connection and the part of a frame that it has read.
type streamClient struct {
	path    string // with the query that subscribes
	events  bool   // Server-Sent Events
	fd      int
	partial []byte
}

// streamClients says which clients a load has.
type streamClients struct {
	connections int
	filters     int // different pairs of assets that clients name; at most connections
	// path returns the path of the i-th client, with a query that subscribes to assets, such as "A10,A11".
	path func(i int, assets string) string
}

// newStreamLoad returns the clients of a server, without connections.
func newStreamLoad(addr string, c streamClients) (*streamLoad, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	l := &streamLoad{addr: addr, receivers: map[string]int64{}, epoll: epoll,
		clients: make([]streamClient, c.connections), byFD: make([]int32, 1<<16)}
	for i := range streamAssets {
		l.names = append(l.names, streamAsset(i))
	}
	for i := range l.clients {
		assets := filterAssets(i % c.filters)
		for _, name := range assets {
			l.receivers[name]++
		}
		path := c.path(i, strings.Join(assets[:], ","))
		l.clients[i] = streamClient{path: path, events: strings.HasPrefix(path, eventsPath)}
	}
	return l, nil
}

func streamAsset(i int) string { return "A" + strconv.Itoa(10+i%streamAssets) }

// filterAssets returns the assets of the i-th filter. The distance of the second from the first changes.
func filterAssets(i int) [streamEach]string {
	return [streamEach]string{streamAsset(i), streamAsset(i + 1 + i/streamAssets%(streamAssets-1))}
}

// readPause is the time between reads while only throughput is measured, which leaves the
// processor to the publisher.
const readPause = time.Millisecond

// dialers is the number of connections that are made concurrently.
const dialers = 16

// connect opens and subscribes all connections, and returns the time until the last one was
// confirmed.
func (l *streamLoad) connect(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range dialers {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < len(l.clients) && l.err() == nil; i = int(next.Add(1) - 1) {
				if err := l.dial(ctx, i); err != nil {
					l.fail(fmt.Errorf("connection %d: %w", i, err))
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), l.err()
}

// dial opens the i-th connection by blocking calls and adds its descriptor to epoll.
func (l *streamLoad) dial(ctx context.Context, i int) error {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return err
	}
	defer raw.Close() // the duplicate below stays
	raw.SetDeadline(time.Now().Add(requestTimeout))
	c := &l.clients[i]
	fmt.Fprintf(raw, "GET %s HTTP/1.1\r\nHost: %s\r\n", c.path, l.addr)
	want := "HTTP/1.1 200 OK\r\n"
	if !c.events {
		io.WriteString(raw, "Upgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
		want = "HTTP/1.1 101 Switching Protocols\r\n"
	}
	io.WriteString(raw, "\r\n")
	r := bufio.NewReader(raw)
	line, err := r.ReadString('\n')
	if err != nil || line != want {
		return fmt.Errorf("handshake: %q, %w", line, err)
	}
	for line != "\r\n" {
		if line, err = r.ReadString('\n'); err != nil {
			return err
		}
	}
	// The service sends the messages welcome and subscribed, the bare server only subscribed.
	for text := []byte(nil); !bytes.HasPrefix(text, []byte(`{"type":"subscribed"`)); {
		var size int
		for text, size = c.first(c.partial); size == 0; text, size = c.first(c.partial) {
			b, err := r.ReadByte()
			if err != nil {
				return fmt.Errorf("wait for subscribed: %w", err)
			}
			c.partial = append(c.partial, b)
		}
		c.partial = c.partial[:0]
	}
	file, err := raw.(*net.TCPConn).File()
	if err != nil {
		return err
	}
	defer file.Close()
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	c.fd = fd
	l.byFD[fd] = int32(i)
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// read reads from all connections until close.
func (l *streamLoad) read(ctx context.Context) {
	events := make([]unix.EpollEvent, 4096)
	buf := make([]byte, 256<<10)
	for ctx.Err() == nil && l.err() == nil {
		if l.patient.Load() {
			time.Sleep(readPause)
		}
		n, err := unix.EpollWait(l.epoll, events, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // closed
		}
		for _, e := range events[:max(n, 0)] {
			c := &l.clients[l.byFD[e.Fd]]
			n, err := unix.Read(c.fd, buf)
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n == 0 {
				l.fail(fmt.Errorf("connection ended: %d, %w", n, err))
				return
			}
			l.take(c, buf[:n])
		}
	}
}

// take counts the signals in data that a client has read.
func (l *streamLoad) take(c *streamClient, data []byte) {
	if len(c.partial) > 0 {
		data = append(c.partial, data...)
	}
	now := int64(0)
	count := int64(0)
	for {
		text, size := c.first(data)
		if size == 0 {
			break
		}
		data = data[size:]
		if !bytes.HasPrefix(text, []byte(`{"type":"signal.new"`)) {
			continue
		}
		count++
		if l.record.Load() {
			if now == 0 {
				now = time.Now().UnixNano()
			}
			l.recordLatency(text, now)
		}
	}
	c.partial = append(c.partial[:0], data...)
	l.received.Add(count)
}

// first returns the first message of data and the number of its bytes with what stands around it, which is 0 if
// data does not hold all of it yet.
func (c *streamClient) first(data []byte) (text []byte, size int) {
	if c.events {
		event, _, whole := bytes.Cut(data, []byte("\n\n"))
		if !whole {
			return nil, 0
		}
		_, text, _ = bytes.Cut(event, []byte("data: "))
		return text, len(event) + len("\n\n")
	}
	head := 2
	if len(data) < head {
		return nil, 0
	}
	n := int(data[1])
	if n == 126 {
		if head = 4; len(data) < head {
			return nil, 0
		}
		n = int(data[2])<<8 | int(data[3])
	}
	if len(data) < head+n {
		return nil, 0
	}
	return data[head : head+n], head + n
}

// recordLatency records the latency of the signal in a message.
func (l *streamLoad) recordLatency(text []byte, now int64) {
	n, err := eventNumber(text)
	if err != nil {
		l.fail(err)
		return
	}
	l.recorded = append(l.recorded, time.Duration(now-l.sent[n%uint32(len(l.sent))].Load()))
}

// signalPublisher publishes several signals concurrently, so that the round trip to Redis
// does not limit the rate or count as latency.
type signalPublisher struct {
	load    *streamLoad
	publish publisher
	slots   chan struct{}
	sending sync.WaitGroup
}

func (l *streamLoad) publisher(f publisher) *signalPublisher {
	return &signalPublisher{load: l, publish: f, slots: make(chan struct{}, streamInFlight)}
}

// send publishes the next signal, which is due at due, and counts its receivers.
func (s *signalPublisher) send(ctx context.Context, due time.Time) {
	l := s.load
	l.n++
	n := l.n
	asset := l.names[int(n)%len(l.names)]
	l.sent[n%uint32(len(l.sent))].Store(due.UnixNano())
	l.expected.Add(l.receivers[asset])
	s.slots <- struct{}{}
	s.sending.Go(func() {
		defer func() { <-s.slots }()
		if err := s.publish(ctx, asset, n); err != nil {
			l.fail(err)
		}
	})
}

// finish waits until all signals have been delivered.
func (s *signalPublisher) finish(ctx context.Context) error {
	s.sending.Wait()
	return s.load.settle(ctx, 0)
}

// settle waits until at most maxLeft signals remain to be read.
func (l *streamLoad) settle(ctx context.Context, maxLeft int64) error {
	deadline := time.Now().Add(requestTimeout)
	for {
		expected := l.expected.Load()
		left := expected - l.received.Load()
		if err := l.err(); left <= maxLeft || err != nil {
			return err
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("%d of %d signals were not delivered", left, expected)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// saturate keeps streamInFlight signals in flight for a window, and ends when all have been
// delivered.
func (l *streamLoad) saturate(ctx context.Context, f publisher, window time.Duration) error {
	l.patient.Store(true)
	defer l.patient.Store(false)
	inFlight := int64(streamInFlight) * int64(len(l.clients)) * streamEach / streamAssets
	out := l.publisher(f)
	for start := time.Now(); time.Since(start) < window; {
		if err := l.settle(ctx, inFlight); err != nil {
			return err
		}
		out.send(ctx, time.Now())
	}
	return out.finish(ctx)
}

// pace sends rate signals per second and records the latency of each delivery from the time
// at which its signal was due.
func (l *streamLoad) pace(ctx context.Context, f publisher, window time.Duration, rate float64) error {
	l.recorded = nil
	l.record.Store(true)
	out, start := l.publisher(f), time.Now()
	for i := 0; ; i++ {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if due.Sub(start) > window {
			break
		}
		time.Sleep(time.Until(due))
		out.send(ctx, due)
	}
	if err := out.finish(ctx); err != nil {
		return err
	}
	l.record.Store(false)
	l.taken = l.recorded
	return nil
}

func (l *streamLoad) fail(err error) { l.failed.CompareAndSwap(nil, &err) }

func (l *streamLoad) err() error {
	if e := l.failed.Load(); e != nil {
		return *e
	}
	return nil
}

func (l *streamLoad) close() {
	l.fail(net.ErrClosed)
	for _, c := range l.clients {
		if c.fd > 0 {
			unix.Close(c.fd)
		}
	}
	unix.Close(l.epoll)
}
