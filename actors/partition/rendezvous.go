package partition

import (
	"crypto/sha256"
	"encoding/binary"
)

// wantedOwner returns which of the nodes should own partition p: the one with the
// highest hash of its name and p. When a node comes or goes, only its own
// partitions move. SHA-256 because a hash that mixes the last characters badly gives
// one of several nodes with similar names nearly everything.
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
