#!/usr/bin/env bash
# Guess: in go-redis, PoolStats().TotalConns is the number of connections that a client has, and PoolSize bounds it. Both were so
# until pipelines got connections of their own.
#
# Seen: a client with PoolSize and MaxActiveConns 16 has 26 connections. TotalConns is 16 of them: the 10 of pipelines are
# in PipelineStats only, and neither limit bounds them.
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
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 16, MaxActiveConns: 16})
	defer client.Close()
	// Each command and each pipeline holds its connection until all of them have one.
	block := func() { client.BLPop(ctx, time.Second, "nothing") }
	pipe := func() {
		_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error { p.BLPop(ctx, time.Second, "nothing"); return nil })
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(block)
		wg.Go(pipe)
	}
	most := 0
	for range 50 {
		most = max(most, server.CurrentConnectionCount())
		time.Sleep(10 * time.Millisecond)
	}
	wg.Wait()
	stats := client.PoolStats()
	fmt.Printf("PoolSize and MaxActiveConns 16: the server had %d connections\n", most)
	fmt.Printf("now it has %d: TotalConns %d, PipelineStats.TotalConns %d\n",
		server.CurrentConnectionCount(), stats.TotalConns, stats.PipelineStats.TotalConns)
	if most <= 16 || stats.PipelineStats.TotalConns == 0 ||
		int(stats.TotalConns+stats.PipelineStats.TotalConns) != server.CurrentConnectionCount() {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
EOF
go get github.com/redis/go-redis/v9@v9.23.0 github.com/alicebob/miniredis/v2@v2.40.0 2>/dev/null
echo "go-redis v9.23.0"
go run .
