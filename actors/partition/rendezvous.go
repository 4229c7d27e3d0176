package partition

import (
	"crypto/sha256"
	"encoding/binary"
)

// wantedOwner returns the node that should own partition p while a node of a build without
// assignments is live: the one with the highest
// hash of its name and p. When a node joins or leaves, only its own partitions move. The
// hash is SHA-256 because with a hash that mixes the last characters badly, one of
// several nodes with similar names would own nearly all partitions.
func wantedOwner(nodes []string, p int) string {
	owner, highest := "", uint64(0)
	for _, node := range nodes {
		b := make([]byte, 0, 64)
		b = append(b, node...)
		b = append(b, 0, byte(p>>8), byte(p))
		sum := sha256.Sum256(b)
		score := binary.BigEndian.Uint64(sum[:8])
		if owner == "" || score > highest || score == highest && node > owner {
			owner, highest = node, score
		}
	}
	return owner
}
