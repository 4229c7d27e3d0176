package redisclient

import (
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// PartitionOf returns the partition of account in an installation with a number of partitions.
func PartitionOf(account signal.AccountID, partitions int) int {
	sum := sha256.Sum256([]byte(account))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(partitions))
}

// evenTag is the tag of a new name.
var evenTag = regexp.MustCompile(`^\{(p\d+|auth|market)-[a-z]{2}\}:`)

// Former returns the former name of a key of any installation, which persistence/doc.go has. The former name
// of a partition's key may have more digits than there.
func Former(key string) string { return evenTag.ReplaceAllString(key, "{$1}:") }

// Named returns the key that has the former name in this installation.
func (k Keys) Named(former string) string {
	tag, name, ok := strings.Cut(former, "}:")
	if k.even == nil || !ok {
		return former
	}
	switch {
	case tag == "{auth" && former != k.EndedKey():
		return k.authKey(name)
	case tag == "{market":
		return k.marketKey(name)
	case strings.HasPrefix(tag, "{p"):
		if p, err := strconv.Atoi(tag[2:]); err == nil && p >= 0 && p < len(k.even.partitions) {
			return k.even.partitions[p] + name
		}
	}
	return former
}
