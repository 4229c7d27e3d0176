package main

import (
	"io"
	"testing"
)

// TestTailResumesAfterWhatFollowedTheReply has messages of the default channels come
// before the reply to a resume, which then sends older ones.
func TestTailResumesAfterWhatFollowedTheReply(t *testing.T) {
	tail := &tailer{out: io.Discard, last: "2-0"}
	for _, step := range []struct{ text, last string }{
		{`{"type":"welcome","data":{}}`, "2-0"},
		{`{"type":"agent.status","id":"5-0","data":{}}`, "2-0"},
		{`{"type":"subscribed","data":{"resumed":{"replayed":2,"complete":true}}}`, "2-0"},
		{`{"type":"agent.status","id":"3-0","data":{}}`, "3-0"},
		{`{"type":"agent.status","id":"4-0","data":{}}`, "4-0"},
	} {
		if err := tail.show([]byte(step.text)); err != nil {
			t.Fatal(err)
		}
		if tail.last != step.last {
			t.Errorf("after %s it resumes after %s, want %s", step.text, tail.last, step.last)
		}
	}
}
