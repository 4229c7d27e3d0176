package redisclient

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Script returns the script in scripts/NAME.lua of a package. Several files are joined in
// their order, so that the first may hold functions of the last. A missing one is a panic.
func Script(files embed.FS, names ...string) *redis.Script {
	var text strings.Builder
	for _, name := range names {
		source, err := files.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		text.Write(source)
	}
	return redis.NewScript(text.String())
}
