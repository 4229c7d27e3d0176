#!/usr/bin/env bash
# Guess: in miniredis an XREAD behind the newest entry of a stream costs the same however long the stream is, as XRANGE does,
# which finds its start by halving; and XTRIM MINID costs as much as XTRIM MAXLEN that removes as many entries. While it
# carries out a command, all others wait.
#
# Seen: the XREAD takes a thousand times as long behind 100,000 entries as behind 100, some 25 ms to 20 us, and XTRIM MINID
# hundreds of times as long as MAXLEN, seconds to milliseconds. The bound for both is a factor of 20.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'EOF'
module finding

go 1.26
EOF
cat > main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// quickest is the shortest of five times.
func quickest(f func()) time.Duration {
	best := time.Hour
	for range 5 {
		begin := time.Now()
		f()
		best = min(best, time.Since(begin))
	}
	return best
}

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	defer client.Close()
	fill := func(key string, n int) {
		for i := range n {
			if _, err := server.XAdd(key, fmt.Sprintf("%d-1", i+1), []string{"f", "v"}); err != nil {
				panic(err)
			}
		}
	}
	read := func(key, after string) time.Duration {
		return quickest(func() {
			client.XRead(ctx, &redis.XReadArgs{Streams: []string{key, after}, Count: 1, Block: -1})
		})
	}
	fill("short", 100)
	fill("long", 100_000)
	short, long := read("short", "100-1"), read("long", "100000-1")
	fmt.Printf("XREAD behind the newest of 100 entries %v, of 100,000 entries %v\n", short, long)
	once := func(f func()) time.Duration { begin := time.Now(); f(); return time.Since(begin) }
	fill("a", 40_000)
	fill("b", 40_000)
	length := once(func() { client.XTrimMaxLen(ctx, "a", 20_000) })
	id := once(func() { client.XTrimMinID(ctx, "b", "20001-1") })
	fmt.Printf("20,000 of 40,000 entries are removed by XTRIM MAXLEN in %v, by XTRIM MINID in %v\n", length, id)
	if client.XLen(ctx, "a").Val() != client.XLen(ctx, "b").Val() || long < 20*short || id < 20*length {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
EOF
go get github.com/redis/go-redis/v9@v9.23.0 github.com/alicebob/miniredis/v2@v2.40.0 2>/dev/null
echo "miniredis v2.40.0"
go run .
