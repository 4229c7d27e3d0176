package dashboard

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/agentsignal/agentsignal/actors/panics"
)

// polledEvents is how many sockets with something to read one system call names.
const polledEvents = 128

// poller reads from the kernel sockets of a flusher's connections in one goroutine, so that
// one that is idle needs no goroutine, whose stack is the largest part of its memory.
type poller struct {
	hub *Hub

	mu     sync.Mutex      // guards the rest
	epoll  *os.File        // nil until the first socket
	raw    syscall.RawConn // of epoll
	fd     int             // of epoll
	closed bool
	done   chan struct{} // closed when run has returned
	places []*rawSocket  // by number; nil if free
	free   []int32       // places that are free
	serial int32         // of the last socket; it distinguishes those that had the same place
}

// add has s read until remove, which the caller calls also after an error.
func (p *poller) add(s *rawSocket) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if p.epoll == nil {
		if err := p.begin(); err != nil {
			p.hub.o.Logger.Error("connections cannot be read", "err", err)
			return err
		}
	}
	if n := len(p.free); n > 0 {
		s.place, p.free = p.free[n-1], p.free[:n-1]
	} else {
		s.place, p.places = int32(len(p.places)), append(p.places, nil)
	}
	p.serial++
	s.serial, p.places[s.place] = p.serial, s
	err := p.control(s, unix.EPOLL_CTL_ADD)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		p.hub.o.Logger.Error("a connection cannot be read", "err", err)
	}
	return err
}

// control adds s to epoll or removes it. The caller holds the lock.
func (p *poller) control(s *rawSocket, operation int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: s.place, Pad: s.serial}
	var failed error
	err := s.raw.Control(func(fd uintptr) { failed = unix.EpollCtl(p.fd, operation, int(fd), &event) })
	return errors.Join(err, failed)
}

// begin makes the epoll instance and starts run. The caller holds the lock.
func (p *poller) begin() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make epoll: %w", err)
	}
	// Non-blocking: run waits in the runtime's own poller, not in a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("make epoll: %w", err)
	}
	p.epoll, p.fd = os.NewFile(uintptr(fd), "epoll"), fd
	if p.raw, err = p.epoll.SyscallConn(); err != nil {
		return fmt.Errorf("make epoll: %w", err)
	}
	p.done = make(chan struct{})
	go p.run()
	return nil
}

// remove ends the reading of s, unless it was not added. Its descriptor may be closed.
func (p *poller) remove(s *rawSocket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.serial == 0 {
		return
	}
	if !p.closed {
		_ = p.control(s, unix.EPOLL_CTL_DEL) // a closed descriptor has left epoll by itself
	}
	p.places[s.place] = nil
	p.free = append(p.free, s.place)
}

// at returns the socket that an event is about, or nil if it has been removed.
func (p *poller) at(e *unix.EpollEvent) *rawSocket {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.places[e.Fd]; s != nil && s.serial == e.Pad {
		return s
	}
	return nil
}

// run reads until close.
func (p *poller) run() {
	defer close(p.done)
	var events [polledEvents]unix.EpollEvent
	var n int
	var failed error
	wait := func(fd uintptr) bool {
		n, failed = unix.EpollWait(int(fd), events[:], 0)
		return n > 0 || failed != nil && failed != unix.EINTR && failed != unix.EAGAIN
	}
	r := newRawReader()
	read := func(i int) { p.read(&events[i], r) }
	for {
		if err := p.raw.Read(wait); err != nil || failed != nil {
			return
		}
		panics.GuardEach(p.hub.o.Logger, panics.Dashboard, n, read, nil)
	}
}

// read reads from the socket of an event. A connection whose receiver panics ends.
func (p *poller) read(e *unix.EpollEvent, r *rawReader) {
	s := p.at(e)
	if s == nil || !s.use() {
		return
	}
	end := true
	defer func() { s.rest(end) }()
	end = s.receive(r)
}

// close ends run. Sockets that are added later are not read.
func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	epoll, done := p.epoll, p.done
	p.mu.Unlock()
	if epoll != nil {
		epoll.Close()
		<-done
	}
}
