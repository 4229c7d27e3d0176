package checkpoints

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// TestPageHasAnEventOfACheckpoint that its key verifies, with the payload that the service sends.
func TestPageHasAnEventOfACheckpoint(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../deploy/WEBHOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(label string) []byte {
		found := regexp.MustCompile("(?ms)^```"+label+"\n(.*?)^```$").FindAllSubmatch(page, -1)
		if len(found) != 1 {
			t.Fatalf("the page has %d blocks of %s, want 1", len(found), label)
		}
		return found[0][1]
	}
	key, err := note.NewVerifier(strings.TrimSpace(string(block("key"))))
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	var data struct {
		Checkpoint string       `json:"checkpoint"`
		Heads      verify.Entry `json:"heads"`
	}
	if err := json.Unmarshal(block("checkpoint"), &event); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(event.Data, &data); err != nil {
		t.Fatal(err)
	}
	c, err := verify.Open([]byte(data.Checkpoint), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ReadHeads(&data.Heads); err != nil {
		t.Fatal(err)
	}
	want, err := checkpointData(&record.Signed{Checkpoint: c, Note: []byte(data.Checkpoint), Entry: data.Heads})
	if err != nil {
		t.Fatal(err)
	}
	if string(event.Data) != string(want) || event.Type != "log.checkpoint" {
		t.Errorf("the page has %s of %s, want %s", event.Data, event.Type, want)
	}
}
