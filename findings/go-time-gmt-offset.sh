#!/usr/bin/env bash
# Guess: time.Parse reads "GMT+3" with a layout that ends in MST as an offset of three hours, as it says "GMT+3" when
# the time is printed: 14:05 GMT+3 is 11:05 in UTC. (For other unknown names it is documented to give the offset 0.)
#
# Seen: the zone gets the offset, and the clock is moved by it: 14:05 GMT+3 becomes 17:05 +0300. The moment is that of
# 14:05 UTC, so neither the hour of the text nor its moment is left.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	changed := false
	for text, seen := range map[string]string{
		"Wed, 22 Jan 2025 14:05:09 GMT":   "2025-01-22 14:05:09 +0000 GMT = 2025-01-22 14:05:09 +0000 UTC",
		"Wed, 22 Jan 2025 14:05:09 GMT+3": "2025-01-22 17:05:09 +0300 GMT+3 = 2025-01-22 14:05:09 +0000 UTC",
		"Wed, 22 Jan 2025 14:05:09 GMT-7": "2025-01-22 07:05:09 -0700 GMT-7 = 2025-01-22 14:05:09 +0000 UTC",
		"Wed, 22 Jan 2025 14:05:09 MSK":   "2025-01-22 14:05:09 +0000 MSK = 2025-01-22 14:05:09 +0000 UTC",
	} {
		at, err := time.Parse(time.RFC1123, text)
		if err != nil {
			panic(err)
		}
		got := fmt.Sprint(at, " = ", at.UTC())
		fmt.Println(text, "is", got)
		changed = changed || got != seen
	}
	if changed {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
go version
TZ=UTC go run main.go
