package dashboard

import (
	"net"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
)

// socket is the connection to a client. Only the flusher calls write, and listen is called
// once; the other methods are safe for concurrent use.
type socket interface {
	// write writes as much of b as it can without blocking. It returns errRefused if
	// it can write nothing.
	write(w *rawWriter, b []byte) (int, error)
	// listen has r get what the client sends, from another goroutine. It returns at once.
	listen(r receiver)
	// widen makes room for a close frame in the buffer of a client that does not read.
	widen()
	// finish closes the sending side.
	finish()
	// Close closes the socket. It does not block.
	Close()
}

// receiver gets the bytes of one client, in one call at a time.
type receiver interface {
	// take gets bytes, which are valid until it returns.
	take(b []byte)
	// ended is called once, after the last take: the client has closed its side, its connection
	// is broken or the socket was closed, or take has panicked.
	ended()
}

// Socket options. The send buffer bounds the memory for a client that does not read;
// the kernel doubles the number for its own overhead.
const (
	sendBuffer = 64 << 10
	// wideBuffer is the send buffer of a client that is closed because it does not read.
	wideBuffer = 4 * sendBuffer
	// userTimeout is how long sent bytes may stay unacknowledged, or the client's
	// window closed. It replaces write deadlines.
	userTimeout = 20 * time.Second
)

// startFunc runs do in a goroutine that the hub waits for, and recovers from its panics. It
// reports whether it did: after Hub.Close it does not.
type startFunc func(do func()) bool

// readBytes is the size of a read buffer: messages of clients are short.
const readBytes = 512

// blockingSocket is a socket whose writes may block, such as one with TLS. It copies the
// bytes and starts a goroutine that writes them; until that ends it refuses more, like
// a full socket.
type blockingSocket struct {
	conn  Conn
	taken func() // called when the socket accepts bytes again
	start startFunc

	mu        sync.Mutex
	busy      bool // the goroutine is running
	finishing bool // finish was called
	err       error
}

func (s *blockingSocket) write(_ *rawWriter, b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		return 0, errRefused
	case s.err != nil:
		return 0, s.err
	}
	whole := append(grow(nil, len(b)), b...)
	if s.busy = s.start(func() { s.writeAll(whole) }); !s.busy {
		return 0, net.ErrClosed
	}
	return len(b), nil
}

func (s *blockingSocket) writeAll(b []byte) {
	err := panics.ErrPanicked
	defer func() { s.written(err) }()
	s.conn.SetWriteDeadline(time.Now().Add(userTimeout))
	_, err = s.conn.Write(b)
	recycle(b)
}

// written records that the goroutine of a write has ended.
func (s *blockingSocket) written(err error) {
	s.mu.Lock()
	s.busy, s.err = false, err
	finishing := s.finishing
	s.mu.Unlock()
	if finishing {
		s.closeWrite()
		return
	}
	s.taken()
}

// listen starts a goroutine that reads, since TLS cannot be read without blocking.
func (s *blockingSocket) listen(r receiver) {
	read := func() {
		defer r.ended()
		b := make([]byte, readBytes)
		for {
			n, err := s.conn.Read(b)
			if n > 0 {
				r.take(b[:n])
			}
			if err != nil {
				return
			}
		}
	}
	if !s.start(read) {
		r.ended()
	}
}

// widen does nothing: a larger buffer would not wake the blocked write. A client that
// does not read within userTimeout gets no close frame.
func (s *blockingSocket) widen() {}

// finish closes the sending side after a write in progress.
func (s *blockingSocket) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finishing = true; !s.busy {
		s.start(s.closeWrite)
	}
}

// closeWrite closes the sending side. It may block, because TLS sends an alert for it.
func (s *blockingSocket) closeWrite() {
	if t, ok := s.conn.(interface{ CloseWrite() error }); !ok || t.CloseWrite() != nil {
		s.conn.Close()
	}
}

// Close implements socket. It starts a goroutine, because closing TLS may block, unless the hub
// is closed.
func (s *blockingSocket) Close() {
	if !s.start(func() { s.conn.Close() }) {
		s.conn.Close()
	}
}
