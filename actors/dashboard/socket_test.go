package dashboard

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder is a receiver that passes on what it gets. The test fails if it is used after its end.
type recorder struct {
	tb     testing.TB
	panics bool
	got    chan string
	ending atomic.Bool
	end    chan struct{} // closed by ended
}

func newRecorder(tb testing.TB) *recorder {
	return &recorder{tb: tb, got: make(chan string, 64), end: make(chan struct{})}
}

func (r *recorder) take(b []byte) {
	if r.panics {
		panic("at reading")
	}
	if r.ending.Load() {
		r.tb.Errorf("%d bytes come after the end", len(b))
		return
	}
	r.got <- string(b)
}

func (r *recorder) ended() {
	if r.ending.Swap(true) {
		r.tb.Error("the end comes twice")
		return
	}
	close(r.end)
}

// tcpPair returns the ends of a TCP connection.
func tcpPair(tb testing.TB) (client, server net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func pipe(testing.TB) (client, server net.Conn) { return net.Pipe() }

// listenOn returns a TCP connection that a poller reads.
func listenOn(tb testing.TB, in *poller) (client net.Conn, s socket, r *recorder) {
	tb.Helper()
	client, server := tcpPair(tb)
	s, r = newSocket(server, func() {}, in.hub.start, in), newRecorder(tb)
	s.listen(r)
	return client, s, r
}

func TestReadingEndsOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(client net.Conn, s socket){
		"by the client":         func(client net.Conn, _ socket) { client.Close() },
		"by the service":        func(_ net.Conn, s socket) { s.Close(); s.Close() },
		"by both":               func(client net.Conn, s socket) { client.Close(); s.Close() },
		"by the client's reset": func(client net.Conn, _ socket) { client.(*net.TCPConn).SetLinger(0); client.Close() },
		"by the client's half": func(client net.Conn, s socket) {
			client.(*net.TCPConn).CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newBench(t, nil).hub
			in := &poller{hub: h}
			client, s, r := listenOn(t, in)
			client.Write([]byte("x"))
			if got := <-r.got; got != "x" {
				t.Errorf("got %q", got)
			}
			end(client, s)
			<-r.end
			s.Close()
			in.close()
		})
	}
	t.Run("before it began", func(t *testing.T) {
		t.Parallel()
		h := newBench(t, nil).hub
		in := &poller{hub: h}
		defer in.close()
		_, server := tcpPair(t)
		s, r := newSocket(server, func() {}, h.start, in), newRecorder(t)
		s.Close()
		s.listen(r)
		<-r.end
	})
}

// Descriptors are used again at once. Each receiver must get the bytes of its own client,
// however the connections end.
func TestSocketsComeAndGo(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	in := &poller{hub: h}
	defer in.close()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 100 {
				client, s, r := listenOn(t, in)
				want := fmt.Sprintf("%d of %d", i, worker)
				client.Write([]byte(want))
				if i%3 == 0 { // it may be closed before, during and after the read
					s.Close()
				} else if got := <-r.got; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				client.Close()
				<-r.end
				s.Close()
				close(r.got)
				for got := range r.got {
					if got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestMoreThanABufferIsRead(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	in := &poller{hub: h}
	defer in.close()
	client, _, r := listenOn(t, in)
	const size = 50_000
	go client.Write(make([]byte, size))
	client.SetDeadline(time.Now().Add(time.Minute))
	for n := 0; n < size; {
		n += len(<-r.got)
	}
}
