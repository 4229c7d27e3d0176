package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// streamLoad is many clients of a stream in one process. One goroutine reads all sockets, so
// that the clients cost little of the machine that they share with the server.
type streamLoad struct {
	addr, path  string
	connections int
	assets      [][]string // of each connection
	receivers   map[string]int64
	names       []string

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
	fd      int
	partial []byte
}

func newStreamLoad(addr, path string, connections int) (*streamLoad, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	l := &streamLoad{addr: addr, path: path, connections: connections, receivers: map[string]int64{}, epoll: epoll,
		clients: make([]streamClient, connections), byFD: make([]int32, 1<<16)}
	for i := range streamAssets {
		l.names = append(l.names, "A"+strconv.Itoa(10+i))
	}
	for i := range connections {
		var wanted []string
		for k := range streamEach {
			// The distance of the second asset from the first changes.
			name := l.names[(i+k*(1+i/streamAssets%(streamAssets-1)))%streamAssets]
			wanted = append(wanted, name)
			l.receivers[name]++
		}
		l.assets = append(l.assets, wanted)
	}
	return l, nil
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
			for i := int(next.Add(1) - 1); i < l.connections && l.err() == nil; i = int(next.Add(1) - 1) {
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
	fmt.Fprintf(raw, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", l.path, l.addr)
	r := bufio.NewReader(raw)
	line, err := r.ReadString('\n')
	if err != nil || line != "HTTP/1.1 101 Switching Protocols\r\n" {
		return fmt.Errorf("handshake: %q, %w", line, err)
	}
	for line != "\r\n" {
		if line, err = r.ReadString('\n'); err != nil {
			return err
		}
	}
	subscribe, err := json.Marshal(map[string]any{"action": "subscribe", "channels": []string{"signal.new"},
		"filters": map[string]any{"assets": l.assets[i]}})
	if err != nil {
		return err
	}
	if _, err := raw.Write(maskedFrame(subscribe)); err != nil {
		return err
	}
	// The service sends the messages welcome and subscribed, the bare server only subscribed.
	for text := []byte(nil); !bytes.Contains(text, []byte(`"type":"subscribed"`)); {
		if text, err = readFrame(r); err != nil {
			return fmt.Errorf("wait for subscribed: %w", err)
		}
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
	l.clients[i].fd = fd
	l.byFD[fd] = int32(i)
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// maskedFrame returns a text frame of a client with a zero mask.
func maskedFrame(text []byte) []byte {
	frame := []byte{0x81}
	if len(text) < 126 {
		frame = append(frame, 0x80|byte(len(text)))
	} else {
		frame = append(frame, 0x80|126, byte(len(text)>>8), byte(len(text)))
	}
	return append(append(frame, 0, 0, 0, 0), text...)
}

// readFrame reads a frame of a server of up to 64 KiB.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return nil, err
	}
	n := int(head[1])
	if n == 126 {
		if _, err := io.ReadFull(r, head[2:]); err != nil {
			return nil, err
		}
		n = int(head[2])<<8 | int(head[3])
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return text, err
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
		size := frameSize(data)
		if size == 0 || size > len(data) {
			break
		}
		frame := data[:size]
		data = data[size:]
		if frame[0] != 0x81 || !bytes.HasPrefix(frame[headerSize(frame):], []byte(`{"type":"signal.new"`)) {
			continue
		}
		count++
		if l.record.Load() {
			if now == 0 {
				now = time.Now().UnixNano()
			}
			l.recordLatency(frame, now)
		}
	}
	c.partial = append(c.partial[:0], data...)
	l.received.Add(count)
}

// headerSize returns the length of the header of a frame of a server.
func headerSize(frame []byte) int {
	if frame[1] < 126 {
		return 2
	}
	return 4
}

// frameSize returns the length of the first frame of data, or 0 if it is not known yet.
func frameSize(data []byte) int {
	switch {
	case len(data) < 2:
		return 0
	case data[1] < 126:
		return 2 + int(data[1])
	case len(data) < 4:
		return 0
	}
	return 4 + int(data[2])<<8 + int(data[3])
}

// recordLatency records the latency of the signal in a frame.
func (l *streamLoad) recordLatency(frame []byte, now int64) {
	n, err := eventNumber(frame)
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
	publish := func() {
		if err := s.publish(ctx, asset, n); err != nil {
			l.fail(err)
		}
	}
	if l.path == "/stream" {
		publish() // the bare server's feed is one connection
		return
	}
	s.slots <- struct{}{}
	s.sending.Go(func() {
		defer func() { <-s.slots }()
		publish()
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
	inFlight := int64(streamInFlight) * int64(l.connections) * streamEach / streamAssets
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
