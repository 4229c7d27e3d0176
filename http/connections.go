package http

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/http/limits"
)

// ConnectionLimit limits the connections of an address on which no credential has been accepted
// yet: those of the listener before their first request with a credential, and those of the
// stream before they authenticate. Trusted proxies are not counted.
type ConnectionLimit struct {
	open     *limits.Open
	trusted  []netip.Prefix
	metrics  *Metrics
	refusals tasks.Group // answers to refused connections; closed by Server.Shutdown

	mu   sync.Mutex
	ends map[net.Conn]func() // end the count of a connection of the listener
}

// NewConnectionLimit returns a limit of connections of an address; default 1,000. The X-Forwarded-For of trusted
// proxies is believed.
func NewConnectionLimit(max int, trusted []netip.Prefix, metrics *Metrics) *ConnectionLimit {
	return &ConnectionLimit{open: limits.NewOpen(cmp.Or(max, 1000)), trusted: trusted, metrics: metrics,
		ends: make(map[net.Conn]func())}
}

// begin counts one more connection of an address until end is called. If there are too many, it counts the
// refusal.
func (a *ConnectionLimit) begin(address string) (end func(), ok bool) {
	if end, ok = a.open.Begin(address); !ok {
		a.metrics.refusedConnection()
	}
	return end, ok
}

// limitedListener accepts connections within the limit and refuses the others.
type limitedListener struct {
	net.Listener
	limit *ConnectionLimit
	log   *slog.Logger
	plain bool // without TLS
}

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	a := l.limit
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil { // a unix socket
			return conn, nil
		}
		address := peer.Addr().Unmap().WithZone("")
		if isTrusted(address, a.trusted) {
			return conn, nil
		}
		end, ok := a.begin(address.String())
		if !ok {
			l.log.Debug("connection refused: the address has too many without a credential", "address", address)
			if !a.refusals.Go(context.Background(), func(context.Context) { refuseConnection(conn, l.plain) }) {
				conn.Close()
			}
			continue
		}
		a.mu.Lock()
		a.ends[conn] = end
		a.mu.Unlock()
		return conn, nil
	}
}

// refusalTime is how long a refused connection stays open for its answer.
const refusalTime = time.Second

// tooManyConnections is the answer to a refused connection.
var tooManyConnections = func() []byte {
	p := problem{problemKind: problemsByCode["rate_limited"],
		Detail: "too many connections of this address have shown no credential"}
	body := p.document("/", signal.NewRequestID())
	head := "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n" +
		"Retry-After: 10\r\nConnection: close\r\n\r\n"
	return append([]byte(head), body...)
}()

// refuseConnection answers in plain HTTP and closes; with TLS it only closes. It reads what
// the client sends until then, because closing a connection with unread bytes discards the
// answer.
func refuseConnection(conn net.Conn, plain bool) {
	defer conn.Close()
	if !plain {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	if _, err := conn.Write(tooManyConnections); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		var discarded [512]byte
		for n := 0; n < maxHeaderBytes; {
			read, err := conn.Read(discarded[:])
			if err != nil {
				return
			}
			n += read
		}
	}
}

// bare returns the connection below TLS.
func bare(conn net.Conn) net.Conn {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		return over.NetConn()
	}
	return conn
}

// acceptedKey is the context key of the function that ends the count of a connection.
type acceptedKey struct{}

// context serves as http.Server.ConnContext.
func (a *ConnectionLimit) context(ctx context.Context, conn net.Conn) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end := a.ends[bare(conn)]; end != nil {
		return context.WithValue(ctx, acceptedKey{}, end)
	}
	return ctx
}

// state serves as http.Server.ConnState.
func (a *ConnectionLimit) state(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	conn = bare(conn)
	a.mu.Lock()
	end := a.ends[conn]
	delete(a.ends, conn)
	a.mu.Unlock()
	if end != nil {
		end()
	}
}

// accepted records that a request carried a valid credential: its connection counts no more.
func accepted(ctx context.Context) {
	if end, ok := ctx.Value(acceptedKey{}).(func()); ok {
		end()
	}
}
