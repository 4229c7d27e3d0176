package dashboard

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// socket is the connection to a client. write is called by the flusher only,
// receive by the reading goroutine only, the rest by anybody.
type socket interface {
	// write writes what is taken of b without waiting. It returns errRefused if that
	// is nothing.
	write(w *rawWriter, b []byte) (int, error)
	// receive waits for bytes and calls yield with them; they are valid inside yield
	// only. io.EOF says that the client sends no more.
	receive(yield func(b []byte)) error
	// widen makes room for a close frame behind what the client does not read.
	widen()
	// finish says that nothing more will be written.
	finish()
	// Close closes the socket. It does not wait.
	Close()
}

// Socket options. What a client that does not read costs is bounded by the send
// buffer; the kernel doubles the number for its own overhead.
const (
	sendBuffer = 64 << 10
	// wideBuffer is that of a client which is closed because it does not read.
	wideBuffer = 4 * sendBuffer
	// userTimeout is how long sent bytes may stay unacknowledged, or the client's
	// window closed, in place of write deadlines.
	userTimeout = 20 * time.Second
)

// readBytes is how much is read at once: messages of clients are short.
const readBytes = 512

// handover is a socket whose writes may wait, such as one of TLS: the bytes are
// copied and written by a goroutine, which lives as long as there is something to
// write. Meanwhile the socket refuses more, like a full one.
type handover struct {
	conn   net.Conn
	taken  func() // called when more can be taken
	busy   atomic.Bool
	failed atomic.Pointer[error]
	ending sync.Once
}

func (s *handover) write(_ *rawWriter, b []byte) (int, error) {
	if s.busy.Load() {
		return 0, errRefused
	}
	if err := s.failed.Load(); err != nil {
		return 0, *err
	}
	s.busy.Store(true)
	b = append(grow(nil, len(b)), b...)
	go func() {
		s.conn.SetWriteDeadline(time.Now().Add(userTimeout))
		if _, err := s.conn.Write(b); err != nil {
			s.failed.Store(&err)
		}
		recycle(b)
		s.busy.Store(false)
		s.taken()
	}()
	return len(b), nil
}

func (s *handover) receive(yield func(b []byte)) error {
	b := make([]byte, readBytes)
	for {
		n, err := s.conn.Read(b)
		if n > 0 {
			yield(b[:n])
		}
		if err != nil {
			return err
		}
	}
}

func (s *handover) widen() {
	conn := s.conn
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetWriteBuffer(wideBuffer)
	}
}

// finish ends the sending side when what was handed over is written. TLS says so
// to the client by a message of its own, for which it may wait.
func (s *handover) finish() {
	s.ending.Do(func() {
		t, ok := s.conn.(interface{ CloseWrite() error })
		if !ok {
			s.Close()
			return
		}
		go t.CloseWrite()
	})
}

// Close implements socket. Closing TLS may wait to tell the client.
func (s *handover) Close() { go s.conn.Close() }
