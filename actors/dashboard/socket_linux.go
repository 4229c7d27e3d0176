package dashboard

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newSocket takes over conn. taken is called, from any goroutine, when a socket that
// refused bytes accepts them again; kernel sockets do not call it.
func newSocket(conn net.Conn, taken func(), start startFunc) socket {
	if t, ok := conn.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			tune(raw)
			return &rawSocket{conn: t, raw: raw}
		}
	}
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		if t, ok := t.NetConn().(*net.TCPConn); ok {
			if raw, err := t.SyscallConn(); err == nil {
				tune(raw)
			}
		}
	}
	return &handover{conn: conn, taken: taken, start: start}
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

// readBuffers are used only while there is something to read, so that an idle
// connection holds none.
var readBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// rawReader holds the values that a read and its callback share.
type rawReader struct {
	buffer *[4 << 10]byte
	n      int
	errno  syscall.Errno
}

// read reads from fd into a buffer of the pool. It serves as the callback of
// syscall.RawConn.Read: false means that there is nothing to read yet.
func (r *rawReader) read(fd uintptr) bool {
	b := readBuffers.Get().(*[4 << 10]byte)
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(b)), uintptr(len(b)))
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			readBuffers.Put(b)
			return false
		default:
			r.buffer, r.n, r.errno = b, int(n), errno
			return true
		}
	}
}

func (s *rawSocket) receive(yield func(b []byte)) error {
	r := rawReader{}
	call := r.read
	for {
		if err := s.raw.Read(call); err != nil {
			return err
		}
		switch {
		case r.errno != 0:
			readBuffers.Put(r.buffer)
			return r.errno
		case r.n == 0:
			readBuffers.Put(r.buffer)
			return io.EOF
		}
		yield(r.buffer[:r.n])
		readBuffers.Put(r.buffer)
		r.buffer = nil
	}
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
func (s *rawSocket) Close() { s.conn.Close() }
