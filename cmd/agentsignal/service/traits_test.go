package service

import (
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// TestCheckValuesHideKeys and differ by setting, name and key.
func TestCheckValuesHideKeys(t *testing.T) {
	t.Parallel()
	key := credential.NamedKey{Name: "main", Value: [32]byte{1, 2, 3}}
	renamed, other := key, key
	renamed.Name, other.Value[31] = "second", 1
	seen := map[string]bool{}
	for _, trait := range []cluster.Trait{
		keyTrait("auth.jwt_keys", []credential.NamedKey{key, renamed, other}),
		keyTrait("security.encryption_keys", []credential.NamedKey{key}),
	} {
		for _, v := range trait.Values {
			if seen[v] || len(v) != 32 || strings.Contains(v, "010203") {
				t.Errorf("check value %q of %s", v, trait.Setting)
			}
			seen[v] = true
		}
	}
	if len(seen) != 4 || seen[keyTrait("auth.jwt_keys", []credential.NamedKey{key}).Values[0]] == false {
		t.Errorf("check values %v", seen)
	}
}
