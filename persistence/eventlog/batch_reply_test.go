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
	for reply, want := range map[string]batchReply{
		"12-3 11-0 0:1 17:0=300": {first: signal.Position{MS: 12, Seq: 3}, stamp: signal.Position{MS: 11},
			refused: map[int]refusal{0: {guard: 1}, 17: {sequence: 300}}},
		"1-2 - 3.0 3.7 5:2": {first: signal.Position{MS: 1, Seq: 2}, refused: map[int]refusal{5: {guard: 2}},
			left: map[int][]int{3: {0, 7}}},
		"- -": {},
	} {
		got, err := parseBatchReply(reply)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(batchReply{}, refusal{})); err != nil || diff != "" {
			t.Errorf("parseBatchReply(%q): %v (-want +got):\n%s", reply, err, diff)
		}
	}
	for _, reply := range []string{"", "1-1", "x -", "- - 1", "- - a:b", "- - 1:1=", "- - 1:1=x", "- - 1.", "- - x.1"} {
		if _, err := parseBatchReply(reply); err == nil {
			t.Errorf("parseBatchReply(%q) has no error", reply)
		}
	}
}
