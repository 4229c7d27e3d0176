package eventlog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// FuzzLogReply: the replies about logs are read without a panic, whatever they are.
func FuzzLogReply(f *testing.F) {
	f.Add([]byte("*1\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$1\r\nd\r\n$2\r\n{}\r\n"))
	f.Add([]byte("%1\r\n$12\r\n{p00}:events\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*0\r\n"))
	f.Add([]byte("*-1\r\n"))
	f.Add([]byte("_\r\n"))
	f.Add([]byte("-ERR x\r\n"))
	f.Add([]byte("*2000000000\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tail := &Tail{byKey: map[string]int{"{p00}:events": 0}}
		tail.parse(b)
		parseBatchReply(string(b))
	})
}

func TestParseBatchReply(t *testing.T) {
	t.Parallel()
	first, stamp, refused, err := parseBatchReply("12-3 11-0 0:1 17:0=300")
	if err != nil || first != (signal.Position{MS: 12, Seq: 3}) || stamp != (signal.Position{MS: 11}) {
		t.Errorf("parseBatchReply = %v, %v, %v", first, stamp, err)
	}
	if diff := cmp.Diff(map[int]refusal{0: {guard: 1}, 17: {sequence: 300}}, refused, cmp.AllowUnexported(refusal{})); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if first, stamp, _, err := parseBatchReply("- -"); err != nil || !first.IsZero() || !stamp.IsZero() {
		t.Errorf("a batch without ids: %v, %v, %v", first, stamp, err)
	}
	for _, reply := range []string{"", "1-1", "x -", "- - 1", "- - a:b", "- - 1:1=", "- - 1:1=x"} {
		if _, _, _, err := parseBatchReply(reply); err == nil {
			t.Errorf("parseBatchReply(%q) has no error", reply)
		}
	}
}
