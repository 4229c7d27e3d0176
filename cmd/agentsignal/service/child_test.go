package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// program builds the program, with the race detector, and returns its path.
var program = once(func(tb testing.TB) string {
	path := filepath.Join(lastingTB{tb}.TempDir(), "agentsignal")
	if out, err := exec.Command("go", "build", "-race", "-o", path, "..").CombinedOutput(); err != nil {
		tb.Fatalf("build the program: %v\n%s", err, out)
	}
	return path
})

// staticBuild returns the command that builds a program as deploy/packages/build.sh does, without the race detector, so
// that what is compiled for one is not compiled again for another.
func staticBuild(path, pkg string) *exec.Cmd {
	c := exec.Command("go", "build", "-trimpath", "-o", path, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c
}

// command runs a command of the program in a process of its own until it ends or ctx does,
// which ends it as SIGTERM does. Its error is what the program prints last, and the exit code if
// that is not 1.
func command(ctx context.Context, tb testing.TB, in io.Reader, out, errs io.Writer, args ...string) error {
	tb.Helper()
	c := exec.CommandContext(ctx, program(tb), args...)
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error {
		c.Process.Signal(syscall.SIGTERM)
		return os.ErrProcessDone // it is not an error that ctx ends
	}
	var printed journal
	c.Stdin, c.Stdout, c.Stderr = in, out, io.MultiWriter(errs, &printed)
	err := c.Run()
	code := c.ProcessState.ExitCode()
	if code != 1 && code != 2 {
		return err
	}
	const prefix = "agentsignal: "
	text := "\n" + printed.String()
	_, text, _ = strings.Cut(text[max(0, strings.LastIndex(text, "\n"+prefix)):], prefix)
	text = strings.TrimSpace(text)
	if code == 2 {
		return fmt.Errorf("%s: %w", text, err)
	}
	return errors.New(text)
}

// operator returns an operator of the program with the settings.
func operator(tb testing.TB, settings ...string) commandtest.Operator {
	tb.Helper()
	run := func(ctx context.Context, in io.Reader, args ...string) (string, string, error) {
		var out, errs journal
		err := command(ctx, tb, in, &out, &errs, args...)
		return out.String(), errs.String(), err
	}
	return commandtest.NewOperator(tb, run, settings...)
}

// storeOperator returns an operator of the Redis at url, or of the one in the data directory
// if url is empty.
func storeOperator(tb testing.TB, url, dataDir string) commandtest.Operator {
	tb.Helper()
	return operator(tb, commandtest.StoreSettings(tb, url, dataDir)...)
}

// Exit codes of failures.
const (
	exitFailed = 1
	exitForced = 130
)

// accountJSON is an account as the program and the API print it.
type accountJSON struct {
	AccountID signal.AccountID `json:"account_id"`
	Email     string           `json:"email"`
	CreatedAt string           `json:"created_at"`
}

// keyJSON is an API key as the program prints it.
type keyJSON struct {
	KeyID     string   `json:"key_id"`
	APIKey    string   `json:"api_key"`
	Scopes    []string `json:"scopes"`
	ExpiresAt *string  `json:"expires_at"`
}

// child is a service in a process of its own, which can be killed.
type child struct {
	tb   testing.TB
	cmd  *exec.Cmd
	log  *journal
	url  string // http://host:port
	over chan struct{}
	err  error // of Wait; set when over is closed
}

// launch starts the program as a service with the given settings, NAME=value
// without the prefix, and returns when it listens. It is killed when the test ends.
func launch(tb testing.TB, settings ...string) *child {
	tb.Helper()
	return launchArgs(tb, []string{"serve"}, settings...)
}

// launchReady is launch for a service that is to be used.
func launchReady(tb testing.TB, settings ...string) *child {
	tb.Helper()
	c := launch(tb, settings...)
	c.awaitReady(tb)
	return c
}

// launchArgs is launch with arguments of the program.
func launchArgs(tb testing.TB, args []string, settings ...string) *child {
	tb.Helper()
	c := spawn(tb, args, settings...)
	c.awaitAddress(tb)
	return c
}

// awaitAddress waits until the child listens.
func (c *child) awaitAddress(tb testing.TB) {
	tb.Helper()
	eventually(tb, "the child listens", func() bool {
		select {
		case <-c.over:
			tb.Fatalf("the child ended: %v\n%s", c.err, c.log.Newest())
		default:
		}
		line := c.log.Line(`"msg":"agentsignal listens"`)
		if line == "" || !strings.HasSuffix(line, "\n") {
			return false
		}
		var logged struct{ Addr string }
		if err := json.Unmarshal([]byte(line), &logged); err != nil {
			tb.Fatalf("read log line %q: %v", line, err)
		}
		c.url = "http://" + logged.Addr
		return true
	})
}

// plain begins a variable of a child's environment that is no setting of the service.
const plain = "$"

// noPath is a setting for a child that finds no other program.
const noPath = plain + "PATH=/nonexistent"

// spawn is launchArgs without waiting.
func spawn(tb testing.TB, args []string, settings ...string) *child {
	tb.Helper()
	return spawnProgram(tb, program(tb), args, settings...)
}

// spawnProgram is spawn for a build of the program.
func spawnProgram(tb testing.TB, path string, args []string, settings ...string) *child {
	tb.Helper()
	c := &child{tb: tb, log: &journal{}, over: make(chan struct{})}
	c.cmd = exec.Command(path, args...)
	// The race detector must not pause at the end, and the child must not outlive the test.
	c.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "AGENTSIGNAL_HTTP_ADDR=127.0.0.1:0",
		"AGENTSIGNAL_LOG_FORMAT=json")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for _, s := range settings {
		name, isPlain := strings.CutPrefix(s, plain)
		if !isPlain {
			name = "AGENTSIGNAL_" + s
		}
		c.cmd.Env = append(c.cmd.Env, name)
	}
	c.cmd.Stderr = c.log
	c.cmd.Stdout = c.log
	if err := c.cmd.Start(); err != nil {
		tb.Fatalf("start child: %v", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.over)
	}()
	tb.Cleanup(func() {
		c.kill()
		c.awaitRedis()
		c.log.Blame(tb)
	})
	return c
}

// awaitRedis waits for the end of a Redis that a killed child has started, since it completes its files after the death
// of the child, and until then their directory cannot be removed.
func (c *child) awaitRedis() {
	c.tb.Helper()
	if c.cmd.ProcessState.ExitCode() >= 0 {
		return // it was not killed, and has stopped its Redis
	}
	for _, s := range c.cmd.Env {
		dir, found := strings.CutPrefix(s, "AGENTSIGNAL_DATA_DIR=")
		if !found {
			continue
		}
		lock, err := os.Open(filepath.Join(dir, "redis.lock"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has started none
		}
		must(c.tb, err)
		defer lock.Close()
		eventually(c.tb, "the child's Redis ends", func() bool {
			return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		})
	}
}

// signal sends a signal to the process.
func (c *child) signal(s syscall.Signal) {
	c.tb.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.tb.Fatalf("send %v: %v", s, err)
	}
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	c.tb.Helper()
	c.signal(syscall.SIGKILL)
	<-c.over
}

// exit waits for the end of the process, and returns its exit code and how long that took.
func (c *child) exit() (code int, took time.Duration) {
	c.tb.Helper()
	began := time.Now()
	select {
	case <-c.over:
	case <-time.After(patience):
		c.signal(syscall.SIGQUIT) // the log will show where it hangs
		<-c.over
		c.tb.Fatalf("the child did not end within %s:\n%s", patience, c.log.Newest())
	}
	return c.cmd.ProcessState.ExitCode(), time.Since(began)
}

// exits fails the test if the process ends with another exit code.
func (c *child) exits(want int) {
	c.tb.Helper()
	if code, _ := c.exit(); code != want {
		c.tb.Errorf("the child ended with %d, want %d", code, want)
	}
}

func (c *child) client(tb testing.TB) *client { return newClient(tb, c.url, "") }

// awaitReady waits until the child is ready.
func (c *child) awaitReady(tb testing.TB) {
	tb.Helper()
	public := c.client(tb)
	eventually(tb, "the child is ready", func() bool {
		select {
		case <-c.over:
			tb.Fatalf("the child ended: %v\n%s", c.err, c.log.Newest())
		default:
		}
		// A service that begins to serve after it has waited for Redis may close a connection.
		a, err := public.try(http.MethodGet, "/readyz", "")
		return err == nil && a.Status == http.StatusOK
	})
}

// newTrader opens the market for ACME and returns a new client whose runs succeed.
func (c *child) newTrader(tb testing.TB, redis *redistest.Server) *client {
	tb.Helper()
	c.awaitReady(tb)
	newMarket(tb, redis.Client()).open("ACME", "101.25")
	trader := register(c.client(tb))
	trader.awaitRun("ACME", "breakout")
	return trader
}

// childSettings returns the settings of a child on the Redis at url, with prices from outside
// and without effective rate limits.
func childSettings(tb testing.TB, url string, more ...string) []string {
	list := []string{"DATA_DIR=" + tb.TempDir(), "REDIS_URL=" + url, "REDIS_TIMEOUT=20s", "RUNS_TIMEOUT=3m",
		"MARKET_SOURCE=stream"}
	for _, class := range []string{"READS", "RUNS", "WRITES", "STREAMS", "LOGINS", "REGISTRATIONS",
		"SESSIONS", "FAILURES", "SCRAPES"} {
		list = append(list, "RATE_LIMIT_"+class+"=1000000/m")
	}
	return append(list, more...)
}
