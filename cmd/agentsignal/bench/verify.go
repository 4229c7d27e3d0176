package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
)

// verifySignals is the number of signals of the export, each with two leaves.
const verifySignals = 100_000

// verifications measures agentsignal verify record as a process of its own. One reference reads the
// JSON of the same file, the other one computes as many hashes as its proofs have.
func (b *bench) verifications(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "agentsignal-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sample, err := export.NewSample(nil)
	if err != nil {
		return err
	}
	sample.Add(verifySignals)
	file, card := filepath.Join(dir, "record.jsonl"), filepath.Join(dir, "scorecard.json")
	size, err := writeSample(sample, file, card)
	if err != nil {
		return err
	}
	b.row("an export of 100,000 signals", "%.0f bytes a signal", float64(size)/verifySignals)
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var took, reading, hashing []float64
	var memory int64
	for range 3 { // they take turns, so that a machine that slows down favours none
		seconds, peak, err := verifyChild(ctx, program, sample.Keys.Public()[0], file, card)
		if err != nil {
			return err
		}
		took, memory = append(took, seconds), max(memory, peak)
		if seconds, err = readLines(file); err != nil {
			return err
		}
		reading, hashing = append(reading, seconds), append(hashing, hashes(2*verifySignals))
	}
	ours, read, hashed := median(took), median(reading), median(hashing)
	b.row(
		"verified, with its scorecard",
		"in %.2f s, %.0f signals/s, at most %d MiB",
		ours,
		verifySignals/ours,
		memory>>20,
	)
	b.row("reading the JSON alone", "in %.2f s", read)
	b.row("as many hashes as its proofs have", "in %.2f s", hashed)
	b.row("ratio to both references together", "%.2f", ours/(read+hashed))
	return nil
}

// writeSample writes an export and a scorecard, and returns the size of the former.
func writeSample(s *export.Sample, file, card string) (int64, error) {
	text, err := s.Scorecard(0)
	if err == nil {
		err = os.WriteFile(card, text, 0o600)
	}
	if err != nil {
		return 0, err
	}
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := s.Write(w); err != nil {
		return 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// verifyChild runs the command and returns its seconds and the bytes of memory that it had at most.
func verifyChild(ctx context.Context, program, key, file, card string) (float64, int64, error) {
	c := exec.CommandContext(ctx, program, "verify", "record", "--key", key, "--scorecard", card, file)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	taken, most, err := runChild(c)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out.String())
	}
	return taken.Seconds(), most, err
}

// runChild runs a command and returns how long it took and the bytes of memory that it had at most.
func runChild(c *exec.Cmd) (taken time.Duration, most int64, err error) {
	start := time.Now()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for { // not the memory of getrusage, which begins with that of this process
		select {
		case err := <-ended:
			return time.Since(start), most, err
		case <-time.After(20 * time.Millisecond):
			most = max(most, peakMemory(c.Process.Pid))
		}
	}
}

// peakMemory returns the bytes of memory that a process has had at most, or 0 if it has ended.
func peakMemory(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscan(rest, &kib)
	return kib << 10
}

// readLines returns the seconds that reading the JSON of a file takes.
func readLines(file string) (float64, error) {
	start := time.Now()
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for l := range bytes.Lines(text) {
		var v map[string]json.RawMessage
		if err := json.Unmarshal(l, &v); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

// hashes returns the seconds that the nodes of the proofs of n leaves take.
func hashes(n int) float64 {
	start := time.Now()
	var node [1 + 2*tlog.HashSize]byte
	for range n * bits.Len(uint(n)) {
		sum := sha256.Sum256(node[:])
		copy(node[1:], sum[:])
	}
	return time.Since(start).Seconds()
}
