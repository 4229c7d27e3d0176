package http

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/http/limits"
)

// anonymous limits the connections of an address on which no credential has been accepted
// yet: those of the listener before their first request with a credential, and those of the
// stream before they authenticate. Trusted proxies are not counted.
type anonymous struct {
	open     *limits.Open
	trusted  []netip.Prefix
	refusals tasks.Group // answers to refused connections; closed by Server.Shutdown

	mu   sync.Mutex
	ends map[net.Conn]func() // end the count of a connection of the listener
}

func newAnonymous(max int, trusted []netip.Prefix) *anonymous {
	return &anonymous{open: limits.NewOpen(max), trusted: trusted, ends: make(map[net.Conn]func())}
}

// anonymousListener accepts connections within the limit and refuses the others.
type anonymousListener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (l anonymousListener) Accept() (net.Conn, error) {
	s, a := l.server, l.server.anonymous
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
		end, ok := a.open.Begin(address.String())
		if !ok {
			s.o.Metrics.refusedConnection()
			s.log.Debug("connection refused: the address has too many without a credential", "address", address)
			if !a.refusals.Go(context.Background(), func(context.Context) { s.refuseConnection(conn) }) {
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
func (s *Server) refuseConnection(conn net.Conn) {
	defer conn.Close()
	if s.o.TLS != nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	if _, err := conn.Write(tooManyConnections); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		var room [512]byte
		for n := 0; n < maxHeaderBytes; {
			read, err := conn.Read(room[:])
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
func (a *anonymous) context(ctx context.Context, conn net.Conn) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end := a.ends[bare(conn)]; end != nil {
		return context.WithValue(ctx, acceptedKey{}, end)
	}
	return ctx
}

// state serves as http.Server.ConnState.
func (a *anonymous) state(conn net.Conn, state http.ConnState) {
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
