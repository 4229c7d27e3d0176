package dashboard

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newSocket takes over conn. taken is called, from any goroutine, when a socket that
// refused bytes accepts them again; kernel sockets do not call it. in reads from these.
func newSocket(conn Conn, taken func(), start startFunc, in *poller) socket {
	if t, ok := conn.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			tune(raw)
			return &rawSocket{conn: t, raw: raw, in: in}
		}
	}
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		if t, ok := t.NetConn().(*net.TCPConn); ok {
			if raw, err := t.SyscallConn(); err == nil {
				tune(raw)
			}
		}
	}
	return &blockingSocket{conn: conn, taken: taken, start: start}
}

// tune sets the options that bound the cost of a client that does not read. Go has
// already set TCP_NODELAY.
func tune(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
}

// rawSocket writes and reads by raw system calls inside syscall.RawConn. That is safe
// against a descriptor that is closed and reused, and needs neither a deadline nor a
// switch to the scheduler, because the calls never block.
type rawSocket struct {
	conn *net.TCPConn
	raw  syscall.RawConn
	in   *poller

	// Set by in, which reads from it at a place.
	place int32
	added bool

	mu     sync.Mutex // guards the rest
	to     receiver   // nil before listen and after the end
	busy   bool       // to is being called
	closed bool       // nothing more is read
}

// rawWriter holds the values that a write and its callback share, so that a write does
// not allocate. Each flusher has one.
type rawWriter struct {
	b     []byte
	n     int
	errno syscall.Errno
	call  func(fd uintptr) bool // the method write
}

func newRawWriter() *rawWriter {
	w := &rawWriter{}
	w.call = w.write
	return w
}

// write writes b to fd, as far as it can. It serves as the callback of syscall.RawConn.Write.
func (w *rawWriter) write(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd,
			uintptr(unsafe.Pointer(unsafe.SliceData(w.b))), uintptr(len(w.b)))
		if errno != syscall.EINTR {
			w.n, w.errno = int(n), errno
			return true
		}
	}
}

func (s *rawSocket) write(w *rawWriter, b []byte) (int, error) {
	w.b = b
	err := s.raw.Write(w.call)
	w.b = nil
	switch {
	case err != nil:
		return 0, err
	case w.errno == 0:
		return w.n, nil
	case w.errno == syscall.EAGAIN:
		return 0, errRefused
	}
	return 0, w.errno
}

// rawReader holds the values that a read and its callback share, so that a read does not
// allocate. Each poller has one.
type rawReader struct {
	buffer [4 << 10]byte
	n      int
	errno  syscall.Errno
	call   func(fd uintptr) bool // the method read
}

func newRawReader() *rawReader {
	r := &rawReader{}
	r.call = r.read
	return r
}

// read reads from fd. It serves as the callback of syscall.RawConn.Read, and does not wait.
func (r *rawReader) read(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd,
			uintptr(unsafe.Pointer(&r.buffer)), uintptr(len(r.buffer)))
		if errno != syscall.EINTR {
			r.n, r.errno = int(n), errno
			return true
		}
	}
}

func (s *rawSocket) listen(r receiver) {
	s.mu.Lock()
	s.to, s.busy = r, true
	s.mu.Unlock()
	s.release(s.in.add(s) != nil)
}

// receive reads what has arrived, at most a buffer, and reports whether nothing can follow.
func (s *rawSocket) receive(r *rawReader) (end bool) {
	err := s.raw.Read(r.call)
	switch {
	case err != nil:
		return true
	case r.errno == syscall.EAGAIN:
		return false
	case r.errno != 0 || r.n == 0:
		return true
	}
	s.to.take(r.buffer[:r.n])
	return false
}

// use reports whether the poller may call the receiver. If so, release follows.
func (s *rawSocket) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.closed || s.to == nil {
		return false
	}
	s.busy = true
	return true
}

// release ends a use of the receiver. end means that there is nothing more to read.
func (s *rawSocket) release(end bool) {
	s.mu.Lock()
	s.busy = false
	s.closed = s.closed || end
	s.endIfUnused()
}

// endIfUnused ends the reading of a closed socket whose receiver is not being called. The caller
// holds the lock, which endIfUnused releases.
func (s *rawSocket) endIfUnused() {
	r := s.to
	if !s.closed || s.busy || r == nil {
		s.mu.Unlock()
		return
	}
	s.to = nil
	s.mu.Unlock()
	s.in.remove(s)
	r.ended()
}

func (s *rawSocket) widen() {
	_ = s.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, wideBuffer)
	})
}

func (s *rawSocket) finish() {
	if err := s.conn.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.conn.Close()
	}
}

// Close implements socket.
func (s *rawSocket) Close() {
	s.conn.Close()
	s.mu.Lock()
	s.closed = true
	s.endIfUnused()
}
