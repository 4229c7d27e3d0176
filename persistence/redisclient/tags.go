package redisclient

import (
	"strconv"
	"strings"
)

// Hash tags whose slots are spread evenly. The masters of a cluster have equal ranges of slots, and the
// tags {p00}, {p01} and so on lie in these as chance has it: 4, 5 and 7 of 16 on three masters. The
// tag of partition p of P therefore ends with letters that bring it near the middle of the p-th of P
// equal parts of all slots. Then every range has its share, however many masters there are.

const (
	// clusterSlots is how many hash slots a Redis Cluster has.
	clusterSlots = 16384
	// authTarget and marketTarget are the slots near which the tags of credentials and of the market
	// are. Beside {node}, whose slot is 14143, they are on different masters from three masters on.
	authTarget, marketTarget = clusterSlots / 6, clusterSlots / 2
)

// tags are the beginnings of keys, each with its hash tag and a colon.
type tags struct {
	partitions   []string
	auth, market string
}

// evenTags returns the tags of an installation with a number of partitions. They never change, since
// the keys of installations have them.
func evenTags(partitions int) *tags {
	t := &tags{make([]string, partitions), tagNear("auth", authTarget), tagNear("market", marketTarget)}
	digits := max(2, len(strconv.Itoa(partitions-1)))
	for p := range t.partitions {
		middle := (2*p + 1) * clusterSlots / (2 * partitions)
		t.partitions[p] = tagNear(partitionName(p, digits), middle)
	}
	return t
}

// partitionName returns the number p with at least so many digits, behind a "p".
func partitionName(p, digits int) string {
	text := strconv.Itoa(p)
	return "p" + strings.Repeat("0", max(0, digits-len(text))) + text
}

// tagNear returns the beginning of keys with the tag "NAME-xx" whose slot is the nearest to target. The
// first in the order of the alphabet counts.
func tagNear(name string, target int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	name += "-"
	crc := crc16(0, name)
	best, distance := "", clusterSlots
	for i := range letters {
		first := crc16(crc, letters[i:i+1])
		for j := range letters {
			slot := int(crc16(first, letters[j:j+1])) % clusterSlots
			if d := max(slot-target, target-slot); d < distance {
				best, distance = letters[i:i+1]+letters[j:j+1], d
			}
		}
	}
	return "{" + name + best + "}:"
}

// crc16 continues the checksum by which a cluster finds the slot of a hash tag, CRC-16/XMODEM.
func crc16(crc uint16, text string) uint16 {
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
