package credential

import (
	"hash/crc32"
	"strings"
)

// Base62 has the characters of secrets.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// The parts of an API key, in their order.
const (
	KeyPrefix = "ask_"
	KeyRandom = 40 // characters: 238 bits
	keyCheck  = 6  // characters of CRC-32 over the random ones
	keyLength = len(KeyPrefix) + KeyRandom + keyCheck
)

// KeyChecksum returns the last characters of a key with the given random ones.
func KeyChecksum(random string) [keyCheck]byte {
	// Like crc32.ChecksumIEEE, but without allocating for a string.
	sum := ^uint32(0)
	for i := range len(random) {
		sum = crc32.IEEETable[byte(sum)^random[i]] ^ sum>>8
	}
	sum = ^sum
	var out [keyCheck]byte
	for i := keyCheck - 1; i >= 0; i-- {
		out[i] = Base62[sum%uint32(len(Base62))]
		sum /= uint32(len(Base62))
	}
	return out
}

// IsKey reports whether s has the form of an API key and the right checksum. Another text that begins with
// KeyPrefix is a key with a typing error, or a part of one.
func IsKey(s string) bool {
	if len(s) != keyLength || !strings.HasPrefix(s, KeyPrefix) || !IsBase62(s[len(KeyPrefix):]) {
		return false
	}
	check := KeyChecksum(s[len(KeyPrefix) : len(KeyPrefix)+KeyRandom])
	return s[len(s)-keyCheck:] == string(check[:])
}

// IsBase62 reports whether s has only characters of Base62.
func IsBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
