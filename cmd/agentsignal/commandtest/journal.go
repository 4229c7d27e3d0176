package commandtest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// Journal is a log that tests read while it is written.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (j *Journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// String returns all that was written.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Line returns the first line that contains all parts, with its end, or "".
func (j *Journal) Line(parts ...string) string {
lines:
	for line := range strings.Lines(j.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		return line
	}
	return ""
}

// Forget removes the lines that contain part, which a test has provoked.
func (j *Journal) Forget(part string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var rest bytes.Buffer
	for line := range bytes.Lines(j.text.Bytes()) {
		if !bytes.Contains(line, []byte(part)) {
			rest.Write(line)
		}
	}
	j.text = rest
}

// Newest returns the last 12,000 bytes of the log.
func (j *Journal) Newest() string {
	const maxBytes = 12_000
	text := j.String()
	return text[max(0, len(text)-maxBytes):]
}

// Blame fails the test for each error, data race and panic in the log.
func (j *Journal) Blame(tb testing.TB) {
	for _, part := range []string{`"level":"ERROR"`, "DATA RACE", "panic:", "fatal error:"} {
		if line := j.Line(part); line != "" {
			tb.Errorf("in the log: %s", line)
			if part != `"level":"ERROR"` {
				tb.Logf("end of the log:\n%s", j.Newest())
			}
		}
	}
	if tb.Failed() {
		tb.Logf("end of the log:\n%s", j.Newest())
	}
}
