package codec

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Most of what is kept of signals for months is their metadata, and all of it is much alike.
// Packed with a dictionary of the strategies' phrases it takes a quarter of the space. Packing
// clears a table of 64 KB, for which it also needs a large stack, so what was packed last is kept.

// metadataText1 is dictionary 1. Never change it, since metadata that was packed with it
// cannot be read without it. A better one is a new file with a new number.
//
//go:embed metadata_1.dict
var metadataText1 []byte

var metadataDict1 = s2.MakeDictManual(metadataText1, 0)

const (
	// metadataPacked1 is the first byte of metadata packed with dictionary 1. JSON
	// objects that are not packed begin with a brace.
	metadataPacked1 = 1
	// maxMetadata bounds what is unpacked. No signal has as much.
	maxMetadata = 4 << 20

	// maxRecent is how many packed metadata are kept, and maxRecentBytes the longest of them before
	// packing. Texts are longer, and no two are alike.
	maxRecent      = 256
	maxRecentBytes = 2 << 10
)

// recentMetadata has the packed form of metadata that was packed last: at a busy moment, many runs
// evaluate the same strategy at the same price.
var recentMetadata = struct {
	sync.Mutex
	packed map[string][]byte
}{packed: map[string][]byte{}}

// PackMetadata returns metadata as it is stored, or metadata itself if packing does not make it
// smaller. The caller must not change the result.
func PackMetadata(metadata []byte) []byte {
	if len(metadata) < 32 || len(metadata) > maxMetadata || metadata[0] != '{' {
		return metadata
	}
	if len(metadata) > maxRecentBytes {
		return packMetadata(metadata)
	}
	r := &recentMetadata
	r.Lock()
	packed, ok := r.packed[string(metadata)]
	r.Unlock()
	if ok {
		return packed
	}
	packed = bytes.Clone(packMetadata(metadata))
	r.Lock()
	defer r.Unlock()
	if len(r.packed) >= maxRecent {
		clear(r.packed)
	}
	r.packed[string(metadata)] = packed
	return packed
}

func packMetadata(metadata []byte) []byte {
	b := make([]byte, 1+s2.MaxEncodedLen(len(metadata)))
	b[0] = metadataPacked1
	packed := metadataDict1.Encode(b[1:], metadata)
	if 1+len(packed) >= len(metadata) {
		return metadata
	}
	return b[:1+len(packed)]
}

// UnpackMetadata is the inverse of PackMetadata. The result shares no memory with stored. It is
// nil if stored is empty.
func UnpackMetadata(stored []byte) (json.RawMessage, error) {
	switch {
	case len(stored) == 0:
		return nil, nil
	case stored[0] == '{':
		return append(json.RawMessage(nil), stored...), nil
	case stored[0] != metadataPacked1:
		return nil, fmt.Errorf("unpack metadata: form %d is not known", stored[0])
	}
	n, err := s2.DecodedLen(stored[1:])
	if err != nil {
		return nil, fmt.Errorf("unpack metadata: %w", err)
	}
	if n > maxMetadata {
		return nil, fmt.Errorf("unpack metadata: %d bytes are too many", n)
	}
	metadata, err := metadataDict1.Decode(make([]byte, n), stored[1:])
	if err != nil {
		return nil, fmt.Errorf("unpack metadata: %w", err)
	}
	if len(metadata) != n {
		return nil, errors.New("unpack metadata: it is cut short")
	}
	return metadata, nil
}
