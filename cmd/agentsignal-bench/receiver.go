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
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// clientReceiver stands for the endpoints of clients. It verifies both signatures of every
// request, counts deliveries and duplicates by endpoint and event, and records when they
// arrived. It shares the processors with the service and the reference, so it reads HTTP
// without net/http, at a lower cost.
type clientReceiver struct {
	secret    string
	listeners []net.Listener
	sinks     []sink

	record atomic.Bool // records arrivals

	received   atomic.Int64 // deliveries without duplicates
	duplicates atomic.Int64
	failed     atomic.Pointer[error]

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// sink is one endpoint.
type sink struct {
	hangs bool // reads requests without answering

	mu       sync.Mutex // guards the rest
	seen     []uint64   // a bit for each event
	arrivals []arrival
}

// arrival is the arrival of a delivery.
type arrival struct {
	event uint32
	at    int64 // Unix ns
}

// maxListeners is the maximum number of ports of a receiver. Like a host, each has a pool of
// connections in the sender.
const maxListeners = 100

// newReceiver opens the endpoints. close ends them.
func newReceiver(ctx context.Context, endpoints int) (*clientReceiver, error) {
	v := &clientReceiver{secret: delivery.NewSecret(), sinks: make([]sink, endpoints), conns: map[net.Conn]struct{}{}}
	for range min(endpoints, maxListeners) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, v.close(ctx))
		}
		v.listeners = append(v.listeners, l)
		v.wg.Go(func() { v.accept(l) })
	}
	return v, nil
}

// url returns the address of the i-th endpoint.
func (v *clientReceiver) url(i int) string {
	return fmt.Sprintf("http://%s/e/%d", v.listeners[i%len(v.listeners)].Addr(), i)
}

func (v *clientReceiver) close(context.Context) error {
	for _, l := range v.listeners {
		l.Close()
	}
	v.mu.Lock()
	for c := range v.conns {
		c.Close()
	}
	v.conns = nil
	v.mu.Unlock()
	v.wg.Wait()
	return nil
}

// forget forgets all deliveries.
func (v *clientReceiver) forget() {
	for i := range v.sinks {
		s := &v.sinks[i]
		s.mu.Lock()
		clear(s.seen)
		s.mu.Unlock()
	}
	v.received.Store(0)
	v.duplicates.Store(0)
}

// take returns the arrivals of every endpoint since record was set, and ends it.
func (v *clientReceiver) take() [][]arrival {
	v.record.Store(false)
	all := make([][]arrival, len(v.sinks))
	for i := range v.sinks {
		s := &v.sinks[i]
		s.mu.Lock()
		all[i], s.arrivals = s.arrivals, nil
		s.mu.Unlock()
	}
	return all
}

func (v *clientReceiver) err() error {
	if e := v.failed.Load(); e != nil {
		return *e
	}
	return nil
}

func (v *clientReceiver) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		v.mu.Lock()
		if v.conns == nil {
			v.mu.Unlock()
			c.Close()
			return
		}
		v.conns[c] = struct{}{}
		v.wg.Go(func() { v.serve(c) })
		v.mu.Unlock()
	}
}

var receiverAnswer = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

// serve answers the requests of one connection until it ends.
func (v *clientReceiver) serve(c net.Conn) {
	defer func() {
		c.Close()
		v.mu.Lock()
		delete(v.conns, c)
		v.mu.Unlock()
	}()
	r := bufio.NewReaderSize(c, 4096)
	q := incoming{}
	for {
		if err := q.read(r); err != nil {
			return // the sender has ended or has given up the request
		}
		now := time.Now().UnixNano()
		n, err := q.verify(v.secret)
		if err == nil && q.endpoint >= len(v.sinks) {
			err = fmt.Errorf("there is no endpoint %d", q.endpoint)
		}
		if err != nil {
			err = fmt.Errorf("receive: %w", err)
			v.failed.CompareAndSwap(nil, &err)
			return
		}
		s := &v.sinks[q.endpoint]
		if s.hangs {
			r.Peek(1) // until the sender gives up
			return
		}
		v.note(s, n, now)
		if _, err := c.Write(receiverAnswer); err != nil {
			return
		}
	}
}

// note counts the delivery of event n.
func (v *clientReceiver) note(s *sink, n uint32, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	word, bit := int(n/64), uint64(1)<<(n%64)
	for word >= len(s.seen) {
		s.seen = append(s.seen, make([]uint64, 1+len(s.seen))...)
	}
	if s.seen[word]&bit != 0 {
		v.duplicates.Add(1)
		return
	}
	s.seen[word] |= bit
	v.received.Add(1)
	if v.record.Load() {
		s.arrivals = append(s.arrivals, arrival{n, at})
	}
}

// incoming is a request. Its body is valid until the next read.
type incoming struct {
	endpoint                        int
	id, timestamp, signed, standard string
	body                            []byte
}

// read reads the next request: POST /e/ENDPOINT, with the length of its body.
func (q *incoming) read(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	path, ok := bytes.CutPrefix(line, []byte("POST /e/"))
	path, _, found := bytes.Cut(path, []byte(" "))
	if q.endpoint, err = strconv.Atoi(string(path)); err != nil || !ok || !found || q.endpoint < 0 {
		return fmt.Errorf("read request: %q", line)
	}
	length := 0
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch string(name) {
		case "":
			q.body = append(q.body[:0], make([]byte, length)...)
			_, err = io.ReadFull(r, q.body)
			return err
		case "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > maxRequestBody {
				return fmt.Errorf("read request: a body of %q bytes", value)
			}
		case signature.HeaderSignature:
			q.signed = string(value)
		case signature.HeaderStandardID:
			q.id = string(value)
		case signature.HeaderStandardTimestamp:
			q.timestamp = string(value)
		case signature.HeaderStandardSignature:
			q.standard = string(value)
		}
	}
}

// maxRequestBody exceeds all bodies of the benchmark, in bytes.
const maxRequestBody = 1 << 16

// verify checks both signatures and returns the number of the event in the body.
func (q *incoming) verify(secret string) (uint32, error) {
	timestamp, err := strconv.ParseInt(q.timestamp, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read timestamp: %w", err)
	}
	if q.signed != signature.Sign(secret, q.body) ||
		q.standard != signature.SignStandard(secret, q.id, timestamp, q.body) {
		return 0, errors.New("a signature does not fit")
	}
	return eventNumber(q.body)
}

// The number of an event in streamPayload follows numberMark.
const (
	numberMark   = `"sig_01M7YQ1WTVKN9DZNWV`
	numberDigits = 10
)

// eventNumber returns the number of the event in a text with streamPayload.
func eventNumber(text []byte) (uint32, error) {
	_, rest, ok := bytes.Cut(text, []byte(numberMark))
	if !ok || len(rest) < numberDigits {
		return 0, fmt.Errorf("no number in %s", text)
	}
	n, err := strconv.ParseUint(string(rest[:numberDigits]), 10, 32)
	return uint32(n), err
}
