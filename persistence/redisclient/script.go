package redisclient

import (
	"embed"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Lua is a script that Redis carries out. It uses only keys that it is given: a cluster looks at these
// to find the slot, and to refuse the script while one of them is on another node.
type Lua struct {
	*redis.Script
	text string
}

// scripts are all of the process.
var scripts []*Lua

// Script returns the script in scripts/NAME.lua of a package, for a variable of that package.
// Several files are joined in their order, so that the first may hold functions of the last. A
// missing one is a panic.
func Script(files embed.FS, names ...string) *Lua {
	var text strings.Builder
	for _, name := range names {
		source, err := files.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		text.Write(source)
	}
	s := &Lua{redis.NewScript(text.String()), text.String()}
	scripts = append(scripts, s)
	return s
}

// Scripts returns all scripts of the process.
func Scripts() []*Lua { return slices.Clone(scripts) }

// Text returns what the script's files hold, without what Prepend has put in front of it.
func (l *Lua) Text() string { return l.text }

// Prepend puts text in front of all scripts of the process. For tests, before they use one.
func Prepend(text string) {
	for _, s := range scripts {
		s.Script = redis.NewScript(text + s.text)
	}
}

// Texts returns the strings of a list that a script has returned.
func Texts(list any) []string {
	items, _ := list.([]any)
	text := make([]string, len(items))
	for i := range items {
		switch v := items[i].(type) {
		case string:
			text[i] = v
		case int64:
			text[i] = strconv.FormatInt(v, 10)
		}
	}
	return text
}
