//go:build !linux

package dashboard

import "net"

// newSocket takes over conn. taken is called, from any goroutine, when a socket that
// refused bytes accepts them again. guard recovers from panics of its argument.
func newSocket(conn net.Conn, taken func(), guard func(do func())) socket {
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetWriteBuffer(sendBuffer)
	}
	return &handover{conn: conn, taken: taken, guard: guard}
}

// rawWriter is needed on Linux only.
type rawWriter struct{}

func newRawWriter() *rawWriter { return nil }
