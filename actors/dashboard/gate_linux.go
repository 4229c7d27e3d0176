package dashboard

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// gate has the runtime poll the network. While as many flushers write as there are processors,
// its scheduler finds one of them runnable after each Gosched, and polls every 10 ms only: for so long an
// answer of Redis or a request would wait. Only its flusher uses it.
type gate struct {
	file    *os.File // an eventfd; nil before the first use, or if there is none
	raw     syscall.RawConn
	call    func(fd uintptr) bool // the method wait
	written bool
	broken  bool
}

// pass returns once the network was polled and what that made runnable has had its turn.
func (g *gate) pass() {
	if g.file == nil && !g.open() || g.raw.Read(g.call) != nil {
		runtime.Gosched()
	}
	g.written = false
}

// open makes the eventfd. It reports whether there is one.
func (g *gate) open() bool {
	if g.broken {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		g.broken = true
		return false
	}
	g.file, g.call = os.NewFile(uintptr(fd), "eventfd"), g.wait
	if g.raw, err = g.file.SyscallConn(); err != nil {
		g.close()
		return false
	}
	return true
}

// wait serves as the callback of syscall.RawConn.Read. First it makes the descriptor readable and has the
// goroutine wait for that, which only a poll of the network ends.
func (g *gate) wait(fd uintptr) bool {
	var count [8]byte
	if g.written {
		_, _ = unix.Read(int(fd), count[:])
		return true
	}
	count[0] = 1 // in either order of bytes a number above 0
	_, err := unix.Write(int(fd), count[:])
	g.written = err == nil
	return !g.written
}

func (g *gate) close() {
	if g.file != nil {
		g.file.Close()
		g.file = nil
	}
	g.broken = true
}
