package assets

import "strings"

// byKey finds an asset by key and by the spellings of other places.
var byKey = func() map[string]*Spec {
	m := make(map[string]*Spec)
	for i := range Known {
		k := &Known[i]
		m[Fold(k.Symbol)] = k
		m[Bare(k.Symbol)] = k
		if k.Class == Crypto {
			for _, quote := range []string{"USD", "USDT", "USDC", "BUSD", "FDUSD", "TUSD", "DAI"} {
				m[k.Symbol+quote] = k
			}
		}
	}
	for alias, symbol := range map[string]string{"XBT": "BTC", "XBTUSD": "BTC", "GOLD": "XAUUSD", "NATGAS": "natural_gas",
		"CRUDE": "oil", "CRUDEOIL": "oil", "MAIZE": "corn"} {
		m[alias] = m[Fold(symbol)]
	}
	return m
}()

// Fold returns the name by which an asset is found: ASCII letters in upper
// case, everything else as it is.
func Fold(name string) string {
	for i := range len(name) {
		if 'a' <= name[i] && name[i] <= 'z' {
			b := []byte(name)
			for ; i < len(b); i++ {
				if 'a' <= b[i] && b[i] <= 'z' {
					b[i] -= 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return name
}

var separators = strings.NewReplacer("-", "", "/", "", "_", "", " ", "", ":", "")

// Bare returns the key of name without the separators that pairs are spelt with.
func Bare(name string) string {
	return separators.Replace(Fold(name))
}

// Find returns the known asset that name means, or nil.
func Find(name string) *Spec {
	if k := byKey[Fold(name)]; k != nil {
		return k
	}
	return byKey[Bare(name)]
}

// Symbol returns the symbol that name means: that of a known asset by any of
// its spellings, else name itself.
func Symbol(name string) string {
	if k := Find(name); k != nil {
		return k.Symbol
	}
	return name
}

// Key returns the key under which the store has the asset that name means.
func Key(name string) string { return Fold(Symbol(name)) }

// ClassOf returns the class of the known asset that name means by any of its spellings;
// empty for others.
func ClassOf(name string) string {
	if k := Find(name); k != nil {
		return k.Class
	}
	return ""
}
