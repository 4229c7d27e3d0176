package service

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/configs"
)

const settingLease = "lease"

// traitsOf returns the settings in which live nodes must agree, without the keys.
func traitsOf(c configs.Config) []cluster.Trait {
	sources, _ := source.ParseSources(c.Market.Source) // checked with the configuration
	var traits []cluster.Trait
	for _, s := range []struct{ setting, value string }{
		{settingLease, time.Duration(c.Lease).String()},
		{"market.source", strings.Join(sources, ",")},
		{"market.speed", strconv.FormatInt(barSpeed(c.Market), 10)},
		{"signals.retention", time.Duration(c.Signals.Retention).String()},
		{"redis.wait_replicas", strconv.Itoa(c.Redis.WaitReplicas)},
		{"redis.without_replicas", c.Redis.WithoutReplicas},
	} {
		traits = append(traits, cluster.Trait{Setting: s.setting, Values: []string{s.value}})
	}
	return traits
}

// keyTrait returns check values of the keys of a setting: an HMAC of a fixed text and the name of
// the key, by which others look it up.
func keyTrait(setting string, keys []credential.NamedKey) cluster.Trait {
	t := cluster.Trait{Setting: setting, Secret: true}
	for i := range keys {
		h := hmac.New(sha256.New, keys[i].Value[:])
		h.Write([]byte("agentsignal: check value of " + setting + " " + keys[i].Name))
		t.Values = append(t.Values, hex.EncodeToString(h.Sum(nil)[:16]))
	}
	return t
}
