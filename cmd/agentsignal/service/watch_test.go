package service

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TestWatchOnATerminal uses watch on a terminal: what it draws, after a change of the size too, and how it
// leaves the terminal.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	s := shared(t)
	trader, _ := s.account(t)
	const run = `{"asset":"BTC","strategy":"momentum"}`
	trader.post("/v1/agents/trading/run", run).ok(t)
	term := newTerminal(t, 80, 24)
	before, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	must(t, err)
	c := exec.Command(program(t), "watch", "--url", s.url, "--key-file", written(t, trader.token))
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "TERM=xterm-256color", "NO_COLOR=")
	c.Stdin, c.Stdout, c.Stderr = term.slave, term.slave, term.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	must(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	shows := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the screen shows %q", want), func() bool {
			text := term.text()
			select {
			case err := <-ended:
				t.Fatalf("watch ended: %v\n%s", err, text)
			default:
			}
			for _, part := range want {
				if !strings.Contains(text, part) {
					return false
				}
			}
			return strings.HasPrefix(text[strings.LastIndex(text, "\n")+1:], " q quit") // on the last line
		})
	}
	shows("● live", "BTC", "░", "▒", "1 open", " sorted by newest") // the price may be on any other mark
	trader.post("/v1/agents/trading/run", run).ok(t)
	shows("Open 2", "2 open, 0 closed")
	if !strings.Contains(term.output(), "\x1b[31m") {
		t.Error("nothing is red")
	}
	term.resize(60, 12)
	shows("BTC", "░", " sorted by newest") // what is drawn from now on is of this size
	term.wide()
	term.press("s")
	shows(" sorted by result")
	term.press("/x")
	shows("filter: x", "no signal passes")
	if term.wide() {
		t.Errorf("a line is wider than the terminal:\n%s", term.text())
	}
	term.press("\x1b")
	shows("BTC", " sorted by result")
	term.resize(160, 40)
	shows("strategy", "momentum", "░")
	term.press("\r") // before any is selected
	shows("confidence", "created  ")
	term.press("q")
	if err := <-ended; err != nil {
		t.Errorf("watch ends with %v:\n%s", err, term.text())
	}
	after, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	must(t, err)
	if before.Lflag != after.Lflag || before.Iflag != after.Iflag || before.Oflag != after.Oflag {
		t.Errorf("the terminal was %+v and is %+v", before, after)
	}
	eventually(t, "the screen from before comes back", func() bool {
		out := term.output()
		return strings.LastIndex(out, "\x1b[?1049l") > strings.LastIndex(out, "\x1b[?1049h") &&
			strings.LastIndex(out, "\x1b[?25h") > strings.LastIndex(out, "\x1b[?25l")
	})
}

// terminal is a pseudoterminal with its screen.
type terminal struct {
	tb            testing.TB
	master, slave *os.File

	mu       sync.Mutex
	out      []byte
	rest     []byte // of out, which is not drawn yet
	lines    [][]rune
	width    int
	x, y     int
	from, to int  // the lines that scroll
	tooWide  bool // something was written beyond the right margin
}

func newTerminal(tb testing.TB, width, height int) *terminal {
	tb.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(tb, err)
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(tb, err)
	must(tb, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(tb, err)
	t := &terminal{tb: tb, master: master, slave: slave}
	t.resize(width, height)
	over := make(chan struct{})
	go func() {
		defer close(over)
		b := make([]byte, 1<<16)
		for {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			t.mu.Lock()
			t.out, t.rest = append(t.out, b[:n]...), append(t.rest, b[:n]...)
			t.draw()
			t.mu.Unlock()
		}
	}()
	tb.Cleanup(func() {
		slave.Close() // then the master has no more to read
		<-over
		master.Close()
	})
	return t
}

// resize changes the size. The program is to draw all again.
func (t *terminal) resize(width, height int) {
	t.tb.Helper()
	t.mu.Lock()
	t.width, t.lines, t.from, t.to = width, nil, 0, height
	for range height {
		t.lines = append(t.lines, blank(width))
	}
	t.mu.Unlock()
	must(t.tb, unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}))
}

func blank(n int) []rune { return []rune(strings.Repeat(" ", max(n, 0))) }

func (t *terminal) press(keys string) {
	t.tb.Helper()
	_, err := t.master.WriteString(keys)
	must(t.tb, err)
}

// output returns all that was written.
func (t *terminal) output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.out)
}

// wide reports whether something was written beyond the right margin since it was called last.
func (t *terminal) wide() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	wide := t.tooWide
	t.tooWide = false
	return wide
}

// text returns the screen.
func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, line := range t.lines {
		lines = append(lines, strings.TrimRight(string(line), " "))
	}
	return strings.Join(lines, "\n")
}

// draw takes what has come whole.
func (t *terminal) draw() {
	for len(t.rest) > 0 {
		c, n := utf8.DecodeRune(t.rest)
		switch {
		case !utf8.FullRune(t.rest):
			return
		case c == '\x1b':
			if n = t.sequence(string(t.rest)); n == 0 {
				return
			}
		case c == '\r':
			t.x = 0
		case c == '\n' && t.y == t.to-1:
			t.scroll(t.from, 1)
		case c == '\n':
			t.y++
		case c == '\b':
			t.x--
		case c == '\t':
			t.x += 8 - t.x%8
		case c >= ' ':
			t.put(c)
		}
		t.rest = t.rest[n:]
		t.y = min(max(t.y, 0), len(t.lines)-1)
		t.x = max(t.x, 0)
	}
}

func (t *terminal) put(c rune) {
	if t.x < t.width {
		t.lines[t.y][t.x] = c
	} else {
		t.tooWide = true
	}
	t.x++
}

// scroll moves the lines from a line to the end of those that scroll up by n, or down if it is negative.
func (t *terminal) scroll(from, n int) {
	for range max(n, -n) {
		if n > 0 {
			copy(t.lines[from:t.to], t.lines[from+1:t.to])
			t.lines[t.to-1] = blank(t.width)
		} else {
			copy(t.lines[from+1:t.to], t.lines[from:t.to])
			t.lines[from] = blank(t.width)
		}
	}
}

// sequence takes an escape sequence and returns its length, or 0 if it has not come whole.
func (t *terminal) sequence(text string) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case ']', 'P', '_': // a text for the terminal, until BEL or ST
		end := strings.IndexByte(text, '\a') + 1
		if i := strings.Index(text, "\x1b\\"); i >= 0 && (end == 0 || i < end) {
			end = i + 2
		}
		return end
	case 'M':
		if t.y == t.from {
			t.scroll(t.from, -1)
		} else {
			t.y--
		}
		return 2
	case '[':
	default:
		return 2
	}
	end := strings.IndexFunc(text[2:], func(c rune) bool { return c >= '@' && c <= '~' })
	if end < 0 {
		return 0
	}
	argument := func(i, missing int) int {
		parts := strings.Split(text[2:2+end], ";")
		if i < len(parts) {
			if n, err := strconv.Atoi(parts[i]); err == nil {
				return n
			}
		}
		return missing
	}
	n := argument(0, 1)
	line := t.lines[t.y]
	x := min(t.x, t.width)
	switch text[2+end] {
	case 'H', 'f':
		t.y, t.x = n-1, argument(1, 1)-1
	case 'A':
		t.y -= n
	case 'B':
		t.y += n
	case 'C':
		t.x += n
	case 'D':
		t.x -= n
	case 'G', '`':
		t.x = n - 1
	case 'd':
		t.y = n - 1
	case 'J':
		first := t.y + 1
		if argument(0, 0) == 2 {
			first = 0
		} else {
			copy(line[x:], blank(t.width-x))
		}
		for i := first; i < len(t.lines); i++ {
			t.lines[i] = blank(t.width)
		}
	case 'K':
		switch argument(0, 0) {
		case 0:
			copy(line[x:], blank(t.width-x))
		case 1:
			copy(line, blank(x+1))
		case 2:
			copy(line, blank(t.width))
		}
	case 'X':
		copy(line[x:], blank(n))
	case 'P':
		copy(line[x:], append([]rune(string(line[min(x+n, t.width):])), blank(n)...))
	case '@':
		copy(line[x:], append(blank(n), []rune(string(line[x:]))...))
	case 'b':
		for range n {
			t.put(line[t.x-1])
		}
	case 'L':
		t.scroll(t.y, -n)
	case 'M':
		t.scroll(t.y, n)
	case 'S':
		t.scroll(t.from, n)
	case 'T':
		t.scroll(t.from, -n)
	case 'r':
		t.from, t.to, t.x, t.y = n-1, min(argument(1, len(t.lines)), len(t.lines)), 0, 0
	}
	return 3 + end
}
