package dashboard

import (
	"net"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
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
	conn  net.Conn
	taken func() // called when more can be taken
	guard func(do func())

	mu        sync.Mutex
	busy      bool // the goroutine is at work
	finishing bool // nothing more will be written
	err       error
}

func (s *handover) write(_ *rawWriter, b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		return 0, errRefused
	case s.err != nil:
		return 0, s.err
	}
	s.busy = true
	go s.writeAll(append(grow(nil, len(b)), b...))
	return len(b), nil
}

func (s *handover) writeAll(b []byte) {
	err := panics.ErrPanicked
	s.guard(func() {
		s.conn.SetWriteDeadline(time.Now().Add(userTimeout))
		_, err = s.conn.Write(b)
	})
	recycle(b)
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

// widen does nothing: more room would not wake the write that waits. A client that
// does not read within closingTime does not learn why it is closed.
func (s *handover) widen() {}

// finish ends the sending side when what was handed over is written.
func (s *handover) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finishing = true; !s.busy {
		go s.closeWrite()
	}
}

// closeWrite ends the sending side. TLS tells the client of it by a message of its
// own, for which it may wait.
func (s *handover) closeWrite() {
	s.guard(func() {
		if t, ok := s.conn.(interface{ CloseWrite() error }); !ok || t.CloseWrite() != nil {
			s.conn.Close()
		}
	})
}

// Close implements socket. Closing TLS may wait to tell the client.
func (s *handover) Close() { go s.guard(func() { s.conn.Close() }) }
