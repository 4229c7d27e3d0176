//go:build !linux

package dashboard

import "net"

// newSocket takes over conn. taken is called, from any goroutine, when a socket that
// refused bytes accepts them again.
func newSocket(conn Conn, taken func(), start startFunc, _ *poller) socket {
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetWriteBuffer(sendBuffer)
	}
	return &blockingSocket{conn: conn, taken: taken, start: start}
}

// rawWriter is needed on Linux only.
type rawWriter struct{}

func newRawWriter() *rawWriter { return nil }

// poller is needed on Linux only.
type poller struct{ hub *Hub }

func (*poller) close() {}
