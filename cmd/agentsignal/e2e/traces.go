package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// EachKey calls f with each key of a Redis.
func EachKey(tb testing.TB, rdb *redis.Client, f func(key string)) {
	tb.Helper()
	keys := rdb.Scan(tb.Context(), 0, "*", 1000).Iterator()
	for keys.Next(tb.Context()) {
		f(keys.Val())
	}
	if err := keys.Err(); err != nil {
		tb.Fatalf("scan: %v", err)
	}
}

// Traces returns the places in Redis, names of keys and stored values, that contain one of
// the texts. It skips prices and keys with a suffix in without.
func (h hookService) Traces(tb testing.TB, texts []string, without ...string) (found []string) {
	tb.Helper()
	EachKey(tb, h.redis, func(key string) {
		if strings.HasPrefix(key, "market:") || strings.HasPrefix(key, "{market-") ||
			slices.ContainsFunc(without, func(end string) bool { return strings.HasSuffix(key, end) }) {
			return
		}
		all := append(Stored(tb, h.redis, key), key...)
		for _, text := range texts {
			if bytes.Contains(all, []byte(text)) {
				found = append(found, fmt.Sprintf("%q in %s", text, key))
			}
		}
	})
	return found
}

// Stored returns all texts that are stored at a key, one a line.
func Stored(tb testing.TB, rdb *redis.Client, key string) []byte {
	tb.Helper()
	kind, err := rdb.Type(tb.Context(), key).Result()
	if err != nil {
		tb.Fatalf("read the type of %s: %v", key, err)
	}
	if kind == "none" {
		return nil // it has expired
	}
	read := map[string][]any{"string": {"GET", key}, "hash": {"HGETALL", key}, "zset": {"ZRANGE", key, 0, -1},
		"set": {"SMEMBERS", key}, "list": {"LRANGE", key, 0, -1}, "stream": {"XRANGE", key, "-", "+"}}[kind]
	if read == nil {
		tb.Fatalf("%s has the type %q", key, kind)
	}
	v, err := rdb.Do(tb.Context(), read...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatalf("read %s: %v", key, err)
	}
	var b bytes.Buffer
	flatten(&b, v)
	return b.Bytes()
}

// flatten writes all texts in a reply of Redis, one a line.
func flatten(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			flatten(b, one)
		}
	case map[any]any:
		for name, value := range v {
			flatten(b, name)
			flatten(b, value)
		}
	case string:
		b.WriteString(v)
		b.WriteByte('\n')
	}
}
