package signals

import (
	"errors"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/codec"
)

func TestMergeMetadata(t *testing.T) {
	t.Parallel()
	got, err := mergeMetadata([]byte(`{"a":1,"b":{"c":2}}`), []byte(`{"a":3,"d":4}`))
	if want := `{"a":3,"b":{"c":2},"d":4}`; err != nil || string(got) != want {
		t.Errorf("mergeMetadata = %s, %v; want %s", got, err, want)
	}
	if got, err := mergeMetadata([]byte(`{"a": 1}`), nil); err != nil || string(got) != `{"a": 1}` {
		t.Errorf("without more: %s, %v", got, err)
	}
	if _, err := mergeMetadata([]byte(`{}`), []byte(`x`)); err == nil || errors.Is(err, codec.ErrShort) {
		t.Errorf("no JSON: %v", err)
	}
}
