package storetest

import (
	_ "embed" // declared_keys.lua
	"flag"
	"os"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed declared_keys.lua
var declaredKeys string

// DeclareKeys makes every script of the process fail if it uses a key that is not in KEYS. A cluster
// would not notice while the key is in the same slot, except when that slot is being moved.
func DeclareKeys() { redisclient.Prepend(declaredKeys) }

// Main runs the tests of a package with DeclareKeys, and ends the process. Benchmarks measure the scripts
// as they are, and the server inside the process has too little room for calls with thousands of
// arguments. Every package with scripts has it as its TestMain.
func Main(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("REDISTEST") == "" { // of redistest
		DeclareKeys()
	}
	os.Exit(m.Run())
}
