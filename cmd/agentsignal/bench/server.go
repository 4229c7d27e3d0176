package bench

import (
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

	"golang.org/x/sys/unix"
)

// server is a service or the bare server, as a process of its own.
type server struct {
	cmd  *exec.Cmd
	addr string
}

// deployedGODEBUG is what the files in deploy set; see decision 89.
const deployedGODEBUG = "schedtrace=2147483647"

// startServer runs this binary with the given arguments on a free port.
func startServer(env []string, args ...string) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(cmp.Or(os.Getenv("BENCH_PROGRAM"), self), args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "AGENTSIGNAL_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(append(cmd.Env, "AGENTSIGNAL_HTTP_ADDR="+addr), env...)
	if _, set := os.LookupEnv("GODEBUG"); !set {
		cmd.Env = append(cmd.Env, "GODEBUG="+deployedGODEBUG)
	}
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

// kill ends the server as kill -9 does, and waits for it.
func (s *server) kill(context.Context) error {
	s.cmd.Process.Kill()
	s.cmd.Wait() // its error is that it was killed
	return nil
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

func pinProcess(pid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin process %d: %w", pid, err)
		}
	}
	return nil
}

// clockTick is the unit of /proc/PID/stat, which is the same on every Linux.
const clockTick = time.Second / 100

// cpu returns the processor time that the server has used.
func (s *server) cpu() (time.Duration, error) { return processorTime(s.cmd.Process.Pid) }

// during returns by how much a measure grows while f runs.
func during[T int64 | time.Duration](measure func() (T, error), f func() error) (T, error) {
	before, err := measure()
	if err == nil {
		err = f()
	}
	if err != nil {
		return 0, err
	}
	after, err := measure()
	return after - before, err
}

func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("read processor time: unknown form")
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

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
