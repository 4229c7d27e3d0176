package assets

import (
	"maps"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

// byKey finds an asset by its key and by the spellings of other services.
var byKey = func() map[string]*Spec {
	m := make(map[string]*Spec)
	for i := range Known {
		k := &Known[i]
		m[Fold(k.Symbol)] = k
		m[Bare(k.Symbol)] = k
		m[Bare(k.Name)] = k
		if k.Class == Crypto {
			for _, quote := range []string{"USD", "USDT", "USDC", "BUSD", "FDUSD", "TUSD", "DAI"} {
				m[k.Symbol+quote] = k
			}
		}
	}
	for alias, symbol := range map[string]string{"XBT": "BTC", "XBTUSD": "BTC", "ETHEREUM": "ETH",
		"NATGAS": "natural_gas", "CRUDE": "oil", "MAIZE": "corn"} {
		m[alias] = m[Fold(symbol)]
	}
	return m
}()

// Fold returns the key of a symbol.
func Fold(name string) string { return spelling.Fold(name) }

var separators = strings.NewReplacer("-", "", "/", "", "_", "", " ", "", ":", "")

// Bare returns the key of name without the separators of currency pairs.
func Bare(name string) string { return separators.Replace(Fold(name)) }

// Find returns the known asset that name means, or nil.
func Find(name string) *Spec {
	if k := byKey[Fold(name)]; k != nil {
		return k
	}
	return byKey[Bare(name)]
}

// Spellings returns the keys of the other names of the known asset with a symbol, sorted.
func Spellings(symbol string) []string { return spellings[symbol] }

var spellings = func() map[string][]string {
	m := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if symbol := byKey[key].Symbol; key != Fold(symbol) {
			m[symbol] = append(m[symbol], key)
		}
	}
	return m
}()

// Symbol returns the symbol of the known asset that name means in any spelling, else name itself.
func Symbol(name string) string {
	if k := Find(name); k != nil {
		return k.Symbol
	}
	return name
}

// Key returns the key in the store of the asset that name means.
func Key(name string) string { return Fold(Symbol(name)) }

// ClassOf returns the class of the known asset that name means in any spelling, or an empty string.
func ClassOf(name string) string {
	if k := Find(name); k != nil {
		return k.Class
	}
	return ""
}
