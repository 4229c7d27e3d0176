package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a service or the bare server, as a process of its own.
type server struct {
	cmd  *exec.Cmd
	addr string
}

// serviceProgram returns the program whose service is measured.
func serviceProgram() string { return cmp.Or(os.Getenv("BENCH_PROGRAM"), ownProgram) }

// ownProgram is this program.
const ownProgram = "/proc/self/exe"

// startServer runs a program with the given arguments on a free port.
func startServer(env []string, program string, args ...string) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	cmd := exec.Command(program, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "AGENTSIGNAL_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(append(cmd.Env, "AGENTSIGNAL_HTTP_ADDR="+addr), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &server{cmd, addr}, nil
}

// stop ends the server and waits for it. Further calls do nothing.
func (s *server) stop(context.Context) error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

// serverStart limits the wait for a server.
const serverStart = 30 * time.Second

// waitFor waits until the path is answered with 200.
func (s *server) waitFor(ctx context.Context, path string) error {
	var last error
	client := http.Client{Timeout: requestTimeout}
	err := until(ctx, serverStart, 10*time.Millisecond, func() (bool, error) {
		var w *http.Response
		if w, last = client.Get("http://" + s.addr + path); last != nil {
			return false, nil
		}
		return w.StatusCode == http.StatusOK, w.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for the server: %w", errors.Join(last, err))
	}
	return nil
}

// pin binds the server's threads to one processor.
func (s *server) pin(cpu int) error { return pinProcess(s.cmd.Process.Pid, cpu) }

// cpu returns the processor time that the server has used.
func (s *server) cpu() (time.Duration, error) { return processorTime(s.cmd.Process.Pid) }

// resident returns the memory of the server in bytes.
func (s *server) resident() (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, errors.New("read memory: unknown form")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// await waits until the sum of a metric over its labels has a value.
func (s *server) await(ctx context.Context, metric string, want float64) error {
	got := 0.0
	err := until(ctx, watchTimeout, 20*time.Millisecond, func() (bool, error) {
		v, err := s.metric(ctx, metric)
		got = v
		return err == nil && got == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s of %v: it is %v, %w", metric, want, got, err)
	}
	return nil
}

// memory returns the resident memory of the server and the bytes of its heap that were alive
// at the last collection: the next one begins when they have grown by GOGC percent.
func (s *server) memory(ctx context.Context) (resident, alive int64, err error) {
	var next, grows float64
	for before := -1.0; before != grows; { // the percentage changes while the service works
		before = grows
		if next, err = s.metric(ctx, "go_memstats_next_gc_bytes"); err != nil {
			return 0, 0, err
		}
		if grows, err = s.metric(ctx, "go_gc_gogc_percent"); err != nil {
			return 0, 0, err
		}
	}
	resident, err = s.resident()
	return resident, int64(next * 100 / (100 + grows)), err
}

// metric returns the sum of a metric over its labels.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer w.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, lines.Err()
}
