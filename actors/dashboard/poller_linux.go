package dashboard

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentsignal/agentsignal/actors/panics"
)

// polledEvents is how many sockets with something to read one system call names.
const polledEvents = 128

// poller reads from the kernel sockets of a flusher's connections in one goroutine. An idle
// connection needs no goroutine of its own, whose stack would be the largest part of its memory.
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
	s.added, p.places[s.place] = true, s
	err := p.control(s, unix.EPOLL_CTL_ADD)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		p.hub.o.Logger.Error("a connection cannot be read", "err", err)
	}
	return err
}

// control adds s to epoll or removes it. The caller holds the lock.
func (p *poller) control(s *rawSocket, operation int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: s.place}
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
	epoll := os.NewFile(uintptr(fd), "epoll")
	raw, err := epoll.SyscallConn()
	// It fails if the runtime's poller could not take the descriptor.
	if err := errors.Join(err, epoll.SetReadDeadline(time.Time{})); err != nil {
		epoll.Close()
		return fmt.Errorf("wait for epoll: %w", err)
	}
	p.epoll, p.raw, p.fd, p.done = epoll, raw, fd, make(chan struct{})
	go p.run(raw, p.done)
	return nil
}

// remove ends the reading of s, unless it was not added. Its descriptor may be closed.
func (p *poller) remove(s *rawSocket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.added {
		return
	}
	if !p.closed {
		_ = p.control(s, unix.EPOLL_CTL_DEL) // a closed descriptor has left epoll by itself
	}
	p.places[s.place] = nil
	p.free = append(p.free, s.place)
}

// at returns the socket of a place, or nil if it has been removed. If the place has another one now, that
// is read for nothing.
func (p *poller) at(place int32) *rawSocket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places[place]
}

// run reads until close.
func (p *poller) run(epoll syscall.RawConn, done chan<- struct{}) {
	defer close(done)
	var events [polledEvents]unix.EpollEvent
	var n int
	var failed error
	wait := func(fd uintptr) bool {
		for {
			n, failed = unix.EpollWait(int(fd), events[:], 0)
			if !errors.Is(failed, unix.EINTR) {
				return n > 0 || failed != nil
			}
		}
	}
	r := newRawReader()
	read := func(i int) { p.read(events[i].Fd, r) }
	for {
		if err := errors.Join(epoll.Read(wait), failed); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.closed {
				p.hub.o.Logger.Error("connections are not read any more", "err", err)
			}
			return
		}
		panics.GuardEach(p.hub.o.Logger, panics.Dashboard, n, read, nil)
	}
}

// read reads from the socket of a place. A connection whose receiver panics ends.
func (p *poller) read(place int32, r *rawReader) {
	s := p.at(place)
	if s == nil || !s.use() {
		return
	}
	end := true
	defer func() { s.release(end) }()
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
