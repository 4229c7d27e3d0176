package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// program is a program in another language that uses its client.
type program struct {
	tb      testing.TB
	in      io.Writer
	lines   chan programLine
	waiting []programLine
}

type programLine struct {
	Kind  string
	Value any
}

func startPython(tb testing.TB, file, url, key string) *program {
	tb.Helper()
	return startProgram(tb, exec.Command(interpreter(tb, "python3"), "-B", "testdata/python/"+file, clientsPath, url, key))
}

func startProgram(tb testing.TB, cmd *exec.Cmd) *program {
	tb.Helper()
	temporary := tb.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	e2e.Must(tb, err)
	out, err := cmd.StdoutPipe()
	e2e.Must(tb, err)
	e2e.Must(tb, cmd.Start())
	p := &program{tb: tb, in: in, lines: make(chan programLine, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.lines)
		r := bufio.NewScanner(out)
		r.Buffer(nil, 16<<20)
		for r.Scan() {
			var line programLine
			if err := json.Unmarshal(r.Bytes(), &line); err != nil {
				tb.Errorf("it prints %.300s", r.Text())
			}
			p.lines <- line
		}
	}()
	tb.Cleanup(func() {
		in.Close()
		timer := time.AfterFunc(e2e.WaitLimit, func() { _ = cmd.Process.Kill() })
		<-done
		_ = cmd.Wait()
		timer.Stop()
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			tb.Errorf("it leaves %v, %v", left, err)
		}
	})
	return p
}

func (p *program) send(command string) {
	p.tb.Helper()
	_, err := fmt.Fprintln(p.in, command)
	e2e.Must(p.tb, err)
}

// any returns the next line.
func (p *program) any() programLine {
	p.tb.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.tb.Fatal("the program has ended")
		}
		return line
	case <-time.After(e2e.WaitLimit):
		p.tb.Fatal("the program prints nothing")
	}
	return programLine{}
}

// next returns the value of the next line of a kind. Lines of other kinds wait.
func (p *program) next(kind string) any {
	p.tb.Helper()
	for i, line := range p.waiting {
		if line.Kind == kind {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			return line.Value
		}
	}
	for {
		line := p.any()
		if line.Kind == kind {
			return line.Value
		}
		p.waiting = append(p.waiting, line)
	}
}

// message returns the next message of the stream, which must be of the type, without greetings, signs of life and
// interruptions.
func (p *program) message(want string) map[string]any {
	p.tb.Helper()
	for {
		m := p.next("message").(map[string]any)
		switch m["type"] {
		case want:
			return m
		case "welcome", "heartbeat", "pong", "client.interrupted":
		default:
			p.tb.Fatalf("the stream has %v, want %s", m, want)
		}
	}
}

// cutRelay passes connections on, and cuts them.
type cutRelay struct {
	addr string

	mu      sync.Mutex
	refuses bool
	open    []net.Conn
}

func newCutRelay(tb testing.TB, to string) *cutRelay {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	e2e.Must(tb, err)
	relay := &cutRelay{addr: ln.Addr().String()}
	var pipes sync.WaitGroup
	pipes.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil || !relay.add(near, far) {
				near.Close()
				if err == nil {
					far.Close()
				}
				continue
			}
			pipes.Go(func() { pipe(near, far) })
			pipes.Go(func() { pipe(far, near) })
		}
	})
	tb.Cleanup(func() {
		ln.Close()
		relay.refuse(true)
		relay.cut()
		pipes.Wait()
	})
	return relay
}

// pipe copies until one side ends, and then ends the other one.
func pipe(to, from net.Conn) {
	io.Copy(to, from)
	to.Close()
	from.Close()
}

func (r *cutRelay) add(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		return false
	}
	r.open = append(r.open, conns...)
	return true
}

// refuse makes the relay end new connections at once, or not any more.
func (r *cutRelay) refuse(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = yes
}

// cut ends all connections.
func (r *cutRelay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.open {
		conn.Close()
	}
	r.open = nil
}
