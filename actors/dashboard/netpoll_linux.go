package dashboard

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// netPoll has the runtime poll the network. While all processors run flushers, the scheduler finds one of
// them runnable after each Gosched and polls only every 10 ms, so that an answer of Redis or a request waits
// that long. Only one flusher uses it.
type netPoll struct {
	file    *os.File // an eventfd; nil before the first use, and if it could not be made
	raw     syscall.RawConn
	call    func(fd uintptr) bool // the method wait
	written bool
	broken  bool
}

// poll returns once the network was polled and what that made runnable has had its turn. That takes as
// long as other goroutines are runnable, since the runtime polls only when none is.
func (p *netPoll) poll() {
	if p.file != nil || p.open() {
		_ = p.raw.Read(p.call)
		p.written = false
	}
	runtime.Gosched() // this goroutine is made runnable before the others
}

// open makes the eventfd. It reports whether there is one.
func (p *netPoll) open() bool {
	if p.broken {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		p.broken = true
		return false
	}
	p.file, p.call = os.NewFile(uintptr(fd), "eventfd"), p.wait
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.close()
		return false
	}
	return true
}

// wait serves as the callback of syscall.RawConn.Read. First it makes the descriptor readable and has the
// goroutine wait for that, which only a poll of the network ends.
func (p *netPoll) wait(fd uintptr) bool {
	var count [8]byte
	if p.written {
		_, _ = unix.Read(int(fd), count[:])
		return true
	}
	count[0] = 1 // in either order of bytes a number above 0
	_, err := unix.Write(int(fd), count[:])
	p.written = err == nil
	return !p.written
}

// close ends the use of the eventfd: later polls let other goroutines run.
func (p *netPoll) close() {
	if p.file != nil {
		p.file.Close()
		p.file = nil
	}
	p.broken = true
}
