package dashboard

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// audienceOf are connections whose other ends count the bytes that they receive.
type audienceOf struct {
	servers []*net.TCPConn
	got     atomic.Int64
	wanted  atomic.Int64
	reached chan struct{}
}

func newAudienceOf(b *testing.B, connections int) *audienceOf {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	a := &audienceOf{reached: make(chan struct{}, 1)}
	var clients []net.Conn
	var reading sync.WaitGroup
	for range connections {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		clients = append(clients, client)
		a.servers = append(a.servers, server.(*net.TCPConn))
		reading.Go(func() {
			buffer := make([]byte, 16<<10)
			for {
				n, err := client.Read(buffer)
				if err != nil {
					return
				}
				if got := a.got.Add(int64(n)); got == a.wanted.Load() {
					a.reached <- struct{}{}
				}
			}
		})
	}
	b.Cleanup(func() {
		for _, c := range clients {
			c.Close()
		}
		reading.Wait()
		for _, c := range a.servers {
			c.Close()
		}
	})
	return a
}

// expect starts a round in which all receive n bytes; wait waits for its end.
func (a *audienceOf) expect(n int) {
	a.got.Store(0)
	a.wanted.Store(int64(n * len(a.servers)))
}

func (a *audienceOf) wait() { <-a.reached }

// BenchmarkFanOut delivers signals, in frames of about 376 bytes, to 1,000 connections of
// one account: by the hub and, as the lower bound, by a plain loop of write(2) of the
// same bytes. One operation is one message to one connection.
func BenchmarkFanOut(b *testing.B) {
	const connections = 1000
	for _, batch := range []int{1, 40} {
		b.Run(fmt.Sprintf("hub/%d", batch), func(b *testing.B) {
			a := newAudienceOf(b, connections)
			s := newUnstarted(b, nil)
			s.server.Start()
			welcome := encodeReply("welcome", welcomeData{ConnectionID: signal.NewConnectionID(), HeartbeatSeconds: 30,
				Channels: names(defaultChannels)}, time.Now())
			a.expect(len(welcome))
			for _, c := range a.servers {
				s.hub.serve(c, principalOf(alice), nil, func() {})
			}
			a.wait()
			events := make([]signal.Event, batch)
			position := signal.Position{MS: 1}
			for b.Loop() {
				for i := range events {
					events[i] = bulky(210)
					position = position.Plus(1)
					events[i].Position = position
				}
				bytes := 0
				for i := range events {
					bytes += len(newFrame(&events[i], nil).bytes)
				}
				a.expect(bytes)
				s.hub.Publish(testPartition, events)
				a.wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch*connections), "ns/message")
		})
		b.Run(fmt.Sprintf("bare/%d", batch), func(b *testing.B) {
			a := newAudienceOf(b, connections)
			for b.Loop() {
				var frames []byte
				for range batch {
					e := bulky(210)
					frames = append(frames, newFrame(&e, nil).bytes...)
				}
				a.expect(len(frames))
				bareWrite(b, a.servers, frames)
				a.wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch*connections), "ns/message")
		})
	}
}

// bareWrite writes b to every connection, with as many goroutines as flushers.
func bareWrite(tb testing.TB, connections []*net.TCPConn, b []byte) {
	const flushers = 2
	var wg sync.WaitGroup
	for i := range flushers {
		wg.Go(func() {
			for j := i; j < len(connections); j += flushers {
				raw, err := connections[j].SyscallConn()
				if err == nil {
					err = raw.Write(func(fd uintptr) bool {
						_, err := syscall.Write(int(fd), b)
						return err != syscall.EAGAIN
					})
				}
				if err != nil {
					tb.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkEncode makes the frame of a signal.
func BenchmarkEncode(b *testing.B) {
	e := bulky(210)
	b.ReportAllocs()
	for b.Loop() {
		newFrame(&e, nil)
	}
}

// BenchmarkDecodeMessage decodes a client's first message.
func BenchmarkDecodeMessage(b *testing.B) {
	text := []byte(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC","ETH"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, f := decodeMessage(text); f != nil {
			b.Fatal(f)
		}
	}
}
