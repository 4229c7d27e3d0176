#!/usr/bin/env bash
# Guess: gofeed gives the moment that a date of an RSS item means, in whatever form it is written, and none (nil) where
# it cannot know that. It has 200 layouts, and a table for the names of zones since version 1.4.
#
# Seen: names of zones outside of its table (MSK, JST, IST, AEDT) are UTC without a notice; GMT+3 is read as GMT;
# 03/04/2025 is of April with seconds and of March with AM; a date without a year is of the year 0. And common forms
# such as "Wed, 22 Jan 2025 11:05 AM", "Sept", or 22.01.2025 are nil.
set -euo pipefail

version=v1.4.2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/mmcdole/gofeed"
)

func main() {
	changed := false
	for _, c := range []struct{ date, seen, means string }{
		{"Wed, 22 Jan 2025 06:05:09 EST", "2025-01-22T11:05:09Z", "2025-01-22T11:05:09Z"},
		{"Wed, 22 Jan 2025 14:05:09 MSK", "2025-01-22T14:05:09Z", "2025-01-22T11:05:09Z"},
		{"Wed, 22 Jan 2025 20:05:09 JST", "2025-01-22T20:05:09Z", "2025-01-22T11:05:09Z"},
		{"Wed, 22 Jan 2025 16:35:09 IST", "2025-01-22T16:35:09Z", "2025-01-22T11:05:09Z"},
		{"Wed, 22 Jan 2025 22:05:09 AEDT", "2025-01-22T22:05:09Z", "2025-01-22T11:05:09Z"},
		{"Wed, 22 Jan 2025 14:05:09 GMT+3", "2025-01-22T14:05:09Z", "2025-01-22T11:05:09Z"},
		{"03/04/2025 11:05:09", "2025-04-03T11:05:09Z", "March or April"},
		{"03/04/2025 11:05 AM", "2025-03-04T11:05:00Z", "March or April"},
		{"Wed, 22 Jan 11:05:09 GMT", "0000-01-22T11:05:09Z", "unknown year"},
		{"Wed, 22 Jan 2025 11:05 AM", "nil", "2025-01-22T11:05:00Z"},
		{"Thu, 18 Sept 2025 15:53:56 +0300", "nil", "2025-09-18T12:53:56Z"},
		{"22.01.2025", "nil", "2025-01-22T00:00:00Z"},
	} {
		f, err := gofeed.NewParser().ParseString(
			"<rss version='2.0'><channel><item><pubDate>" + c.date + "</pubDate></item></channel></rss>")
		if err != nil {
			panic(err)
		}
		got := "nil"
		if at := f.Items[0].PublishedParsed; at != nil {
			got = at.UTC().Format(time.RFC3339)
		}
		fmt.Printf("%-34s read as %-22s means %s\n", c.date, got, c.means)
		changed = changed || got != c.seen
	}
	if changed {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
go mod init finding > init.log 2>&1
go get "github.com/mmcdole/gofeed@$version" > get.log 2>&1 || { cat get.log; exit 1; }
echo "gofeed $version, $(go version)"
TZ=UTC go run .
