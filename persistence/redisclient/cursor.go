package redisclient

import "strconv"

// EraseChunk is how many records one step of erasing reads at most.
const EraseChunk = 1000

// ScanCursor reads a stored cursor of one of the SCAN commands.
func ScanCursor(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64) // anything else starts the scan again
	return n
}

// CursorText returns a cursor as it is stored: empty at the end of the scan.
func CursorText(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
