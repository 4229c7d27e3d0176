package redisclient

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// EraseChunk is how many records one step of erasing reads at most.
const EraseChunk = 1000

// ScanStep does a step of a scan of the server that holds key by scan, one of the SCAN commands. The cursor is "" at
// first, then next of the step before, which may be stored: it names the process of Redis that gave it, since another
// one has another order. Where another process answers, next is that of a scan that begins again. It is "" at the end.
func (c *Client) ScanStep(ctx context.Context, key, cursor string,
	scan func(pipe redis.Pipeliner, from uint64) *redis.ScanCmd) (found []string, next string, err error) {
	var server redis.Cmdable = c.RDB
	if cluster, ok := c.RDB.(*redis.ClusterClient); ok {
		if server, err = cluster.MasterForKey(ctx, key); err != nil {
			return nil, "", err
		}
	}
	number, before, _ := strings.Cut(cursor, " ")
	from, _ := strconv.ParseUint(number, 10, 64) // anything else begins the scan
	// One pipeline has one connection, and so one process.
	pipe := server.Pipeline()
	info, step := pipe.Info(ctx, "server"), scan(pipe, from)
	_ = Execute(ctx, pipe) // step has its error; a server may refuse INFO
	found, to, err := step.Result()
	if err != nil {
		return nil, "", err
	}
	process := cmp.Or(parseInfo(info.Val())["run_id"], c.Nonce)
	switch {
	case from != 0 && process != before:
		return found, "0", nil
	case to == 0:
		return found, "", nil
	}
	return found, strconv.FormatUint(to, 10) + " " + process, nil
}
