package e2e

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

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/terminal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Program builds the program as this test was built, with the race detector or without, and returns its path. The
// packages of tests share it, so that the go command links it again only after a change.
var Program = once(func(tb testing.TB) string {
	dir, err := filepath.Abs(filepath.Join(Repository, "build", "test"))
	Must(tb, err)
	Must(tb, os.MkdirAll(dir, 0o755))
	args := []string{"build", "-o", filepath.Join(dir, "agentsignal"), Repository + "/cmd/agentsignal"}
	if race {
		args = []string{"build", "-race", "-o", filepath.Join(dir, "agentsignal-race"), Repository + "/cmd/agentsignal"}
	}
	one, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644) // other packages build it as well
	Must(tb, err)
	defer one.Close()
	Must(tb, syscall.Flock(int(one.Fd()), syscall.LOCK_EX))
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		tb.Fatalf("build the program: %v\n%s", err, out)
	}
	return args[len(args)-2]
})

// StaticBuild returns the command that builds a program as deploy/packages/build.sh does, without the race detector, so
// that what is compiled for one is not compiled again for another.
func StaticBuild(path, pkg string) *exec.Cmd {
	c := exec.Command("go", "build", "-trimpath", "-o", path, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c
}

// RunCommand runs a command of the program in a process of its own until it ends or ctx does,
// which ends it as SIGTERM does. Its error is what the program prints last, and the exit code if
// that is not 1.
func RunCommand(ctx context.Context, tb testing.TB, in io.Reader, out, errs io.Writer, args ...string) error {
	tb.Helper()
	c := exec.CommandContext(ctx, Program(tb), args...)
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error {
		_ = c.Process.Signal(syscall.SIGTERM)
		return os.ErrProcessDone // it is not an error that ctx ends
	}
	var printed Journal
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

// Operator returns an operator of the program with the settings.
func Operator(tb testing.TB, settings ...string) commandtest.Operator {
	tb.Helper()
	run := func(ctx context.Context, in io.Reader, args ...string) (string, string, error) {
		var out, errs Journal
		err := RunCommand(ctx, tb, in, &out, &errs, args...)
		return out.String(), errs.String(), err
	}
	return commandtest.NewOperator(tb, run, settings...)
}

// StoreOperator returns an operator of the Redis at url, or of the one in the data directory
// if url is empty.
func StoreOperator(tb testing.TB, url, dataDir string) commandtest.Operator {
	tb.Helper()
	return Operator(tb, commandtest.StoreSettings(tb, url, dataDir)...)
}

// Exit codes of failures.
const (
	ExitFailed = 1
	ExitForced = 130
)

// AccountJSON is an account as the program and the API print it.
type AccountJSON struct {
	AccountID signal.AccountID `json:"account_id"`
	Email     string           `json:"email"`
	CreatedAt string           `json:"created_at"`
}

// KeyJSON is an API key as the program prints it.
type KeyJSON struct {
	KeyID     string   `json:"key_id"`
	APIKey    string   `json:"api_key"`
	Scopes    []string `json:"scopes"`
	ExpiresAt *string  `json:"expires_at"`
}

// Child is a service in a process of its own, which can be killed.
type Child struct {
	tb   testing.TB
	Cmd  *exec.Cmd
	Log  *Journal
	URL  string // http://host:port
	over chan struct{}
	err  error // of Wait; set when over is closed
}

// Launch starts the program as a service with the given settings, NAME=value
// without the prefix, and returns when it listens. It is killed when the test ends.
func Launch(tb testing.TB, settings ...string) *Child {
	tb.Helper()
	return LaunchArgs(tb, []string{"serve"}, settings...)
}

// LaunchReady is launch for a service that is to be used.
func LaunchReady(tb testing.TB, settings ...string) *Child {
	tb.Helper()
	c := Launch(tb, settings...)
	c.AwaitReady(tb)
	return c
}

// LaunchArgs is launch with arguments of the program.
func LaunchArgs(tb testing.TB, args []string, settings ...string) *Child {
	tb.Helper()
	c := Spawn(tb, args, settings...)
	c.AwaitAddress(tb)
	return c
}

// AwaitAddress waits until the child listens.
func (c *Child) AwaitAddress(tb testing.TB) {
	tb.Helper()
	Eventually(tb, "the child listens", func() bool {
		select {
		case <-c.over:
			tb.Fatalf("the child ended: %v\n%s", c.err, c.Log.Newest())
		default:
		}
		line := c.Log.Line(`"msg":"agentsignal listens"`)
		if line == "" || !strings.HasSuffix(line, "\n") {
			return false
		}
		var logged struct{ Addr string }
		if err := json.Unmarshal([]byte(line), &logged); err != nil {
			tb.Fatalf("read log line %q: %v", line, err)
		}
		c.URL = "http://" + logged.Addr
		return true
	})
}

// Plain begins a variable of a child's environment that is no setting of the service.
const Plain = "$"

// NoPath is a setting for a child that finds no other program.
const NoPath = Plain + "PATH=/nonexistent"

// Spawn is launchArgs without waiting.
func Spawn(tb testing.TB, args []string, settings ...string) *Child {
	tb.Helper()
	return SpawnProgram(tb, Program(tb), args, settings...)
}

// SpawnProgram is spawn for a build of the program.
func SpawnProgram(tb testing.TB, path string, args []string, settings ...string) *Child {
	tb.Helper()
	c := &Child{tb: tb, Log: &Journal{}, over: make(chan struct{})}
	c.Cmd = exec.Command(path, args...)
	// The race detector must not pause at the end, and the child must not outlive the test.
	c.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "AGENTSIGNAL_HTTP_ADDR=127.0.0.1:0",
		"AGENTSIGNAL_LOG_FORMAT=json")
	c.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for _, s := range settings {
		name, isPlain := strings.CutPrefix(s, Plain)
		if !isPlain {
			name = "AGENTSIGNAL_" + s
		}
		c.Cmd.Env = append(c.Cmd.Env, name)
	}
	c.Cmd.Stderr = c.Log
	c.Cmd.Stdout = c.Log
	if err := c.Cmd.Start(); err != nil {
		tb.Fatalf("start child: %v", err)
	}
	go func() {
		c.err = c.Cmd.Wait()
		close(c.over)
	}()
	tb.Cleanup(func() {
		c.Kill()
		c.awaitRedis()
		c.Log.Blame(tb)
	})
	return c
}

// awaitRedis waits for the end of a Redis that a killed child has started, since it completes its files after the death
// of the child, and until then their directory cannot be removed.
func (c *Child) awaitRedis() {
	c.tb.Helper()
	if c.Cmd.ProcessState.ExitCode() >= 0 {
		return // it was not killed, and has stopped its Redis
	}
	for _, s := range c.Cmd.Env {
		dir, found := strings.CutPrefix(s, "AGENTSIGNAL_DATA_DIR=")
		if !found {
			continue
		}
		lock, err := os.Open(filepath.Join(dir, "redis.lock"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has started none
		}
		Must(c.tb, err)
		defer lock.Close()
		Eventually(c.tb, "the child's Redis ends", func() bool {
			return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		})
	}
}

// Signal sends a signal to the process.
func (c *Child) Signal(s syscall.Signal) {
	c.tb.Helper()
	if err := c.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.tb.Fatalf("send %v: %v", s, err)
	}
}

// Kill ends the process as kill -9 does.
func (c *Child) Kill() {
	c.tb.Helper()
	c.Signal(syscall.SIGKILL)
	<-c.over
}

// Exit waits for the end of the process, and returns its exit code and how long that took.
func (c *Child) Exit() (code int, took time.Duration) {
	c.tb.Helper()
	began := time.Now()
	select {
	case <-c.over:
	case <-time.After(WaitLimit):
		c.Signal(syscall.SIGQUIT) // the log will show where it hangs
		<-c.over
		c.tb.Fatalf("the child did not end within %s:\n%s", WaitLimit, c.Log.Newest())
	}
	return c.Cmd.ProcessState.ExitCode(), time.Since(began)
}

// Exits fails the test if the process ends with another exit code.
func (c *Child) Exits(want int) {
	c.tb.Helper()
	if code, _ := c.Exit(); code != want {
		c.tb.Errorf("the child ended with %d, want %d", code, want)
	}
}

// Client returns a client of the process, without a credential.
func (c *Child) Client(tb testing.TB) *Client { return NewClient(tb, c.URL, "") }

// AwaitReady waits until the child is ready.
func (c *Child) AwaitReady(tb testing.TB) {
	tb.Helper()
	public := c.Client(tb)
	Eventually(tb, "the child is ready", func() bool {
		select {
		case <-c.over:
			tb.Fatalf("the child ended: %v\n%s", c.err, c.Log.Newest())
		default:
		}
		// A service that begins to serve after it has waited for Redis may close a connection.
		a, err := public.Try(http.MethodGet, "/readyz", "")
		return err == nil && a.Status == http.StatusOK
	})
}

// NewTrader opens the market for ACME and returns a new client whose runs succeed.
func (c *Child) NewTrader(tb testing.TB, redis *redistest.Server) *Client {
	tb.Helper()
	c.AwaitReady(tb)
	NewMarket(tb, redis.Client()).Open("ACME", "101.25")
	trader := Register(c.Client(tb))
	trader.AwaitRun("ACME", "breakout")
	return trader
}

// ChildSettings returns the settings of a child on the Redis at url, with prices from outside
// and without effective rate limits.
func ChildSettings(tb testing.TB, url string, more ...string) []string {
	list := []string{"DATA_DIR=" + tb.TempDir(), "REDIS_URL=" + url, "REDIS_TIMEOUT=20s", "RUNS_TIMEOUT=3m",
		"MARKET_SOURCE=stream"}
	for _, class := range []string{"READS", "RUNS", "INTAKES", "WRITES", "STREAMS", "LOGINS", "REGISTRATIONS",
		"SESSIONS", "FAILURES", "SCRAPES"} {
		list = append(list, "RATE_LIMIT_"+class+"=1000000/m")
	}
	return append(list, more...)
}

// SpawnListener starts agentsignal webhook listen with a secret, and returns the URL of the
// receiver.
func SpawnListener(tb testing.TB, secret string) (_ *Child, url string) {
	tb.Helper()
	c := Spawn(tb, []string{"webhook", "listen", "--addr", "127.0.0.1:0"}, "WEBHOOK_SECRET="+secret)
	Eventually(tb, "it listens", func() bool {
		_, url, _ = strings.Cut(c.Log.Line("listening on "), "listening on ")
		return strings.HasSuffix(url, "\n")
	})
	return c, strings.TrimSpace(url)
}

// NodeID returns the id that the child has logged.
func (c *Child) NodeID() string {
	line := c.Log.Line(`"msg":"agentsignal listens"`)
	return Decode[struct{ Node string }](c.tb, line).Node
}

// ClientCommands runs client commands in this process.
func ClientCommands(t *testing.T) commandtest.Operator {
	return commandtest.NewOperator(t, commandtest.InProcess(func() *cobra.Command {
		root, webhook := &cobra.Command{SilenceUsage: true, SilenceErrors: true}, &cobra.Command{Use: "webhook"}
		webhook.AddCommand(terminal.WebhookCommands(nil)...)
		root.AddCommand(append(terminal.Commands(nil), webhook)...)
		return root
	}))
}
