package content

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// benefits tell what a feature with one of the words is good for. They follow the
// feature's name, begin with "so you can", and claim nothing of the product.
var benefits = []struct {
	words   string
	benefit string
}{
	{"quiet silent noise noiseless", "so you can talk and think in peace"},
	{"memory preset presets saved", "so you can come back to your settings in one step"},
	{"height adjustable adjust angle tilt", "so you can set it the way that suits you"},
	{"light lightweight portable foldable folding compact travel", "so you can take it along and put it away with ease"},
	{"water waterproof rain splash sealed", "so you can keep going when it gets wet"},
	{"battery charge charging rechargeable usb", "so you can plan your day with power in reserve"},
	{"wireless cable cables bluetooth cordless", "so you can keep cables out of the way"},
	{"wash washable clean dishwasher wipe", "so you can clean it and get on with your day"},
	{"pocket pockets storage drawer shelf compartment bag", "so you can keep what you need close at hand"},
	{"steel metal aluminium aluminum wood wooden oak bamboo frame glass leather", "so you can tell at a glance what it is made of"},
	{"cotton wool soft cushion cushioned padded foam ergonomic comfort", "so you can sit, stand or move in comfort"},
	{"sole grip tread traction", "so you can feel sure of your footing"},
	{"warranty guarantee return returns support service", "so you can ask for help when you need it"},
	{"app smart remote sensor timer automatic", "so you can leave the small steps to it"},
	{"fast quick instant rapid", "so you can save time when the day is full"},
	{"size sizes colour color colours colors range", "so you can pick the one that fits your place"},
	{"delivery shipping assembly install installation setup", "so you can start soon after it arrives"},
	{"taste flavour flavor roast roasted fresh aroma", "so you can enjoy the taste you came for"},
	{"organic vegan sugar gluten lactose", "so you can choose in line with what you eat"},
	{"safe safety lock locking secure", "so you can use it with an easy mind"},
	{"screen display camera lens image", "so you can see every detail that counts for you"},
	{"capacity large wide extra big room", "so you can fit in more at one time"},
	{"litre litres liter liters ml cm mm kg lb inch inches watt watts", "so you can check at once whether it fits your needs"},
	{"free price fee fees cost costs", "so you can keep an eye on the cost"},
}

// anyBenefits are for features of which no word is known, shortBenefits for texts with
// too many words.
var (
	anyBenefits = []string{
		"so you can see at once whether it fits your needs",
		"so you can get more out of it each day",
		"so you can use it in the way you like",
		"so you can do what you planned with less effort",
		"so you can spend less time on the small things",
		"so you can decide with a clear picture",
		"so you can make it part of your routine",
	}
	shortBenefits = []string{"so you can compare", "so you can plan", "so you can judge the fit", "so you can choose well"}
)

// maxFeatureWords is how many words features and their benefits may have together.
const maxFeatureWords = 190

// withBenefits returns what features are good for.
func withBenefits(names []string, draw *rand.Rand) []feature {
	list := make([]feature, len(names))
	words, next := 0, draw.IntN(len(anyBenefits))
	for i, name := range names {
		benefit := benefitOf(name)
		if benefit == "" {
			benefit = anyBenefits[next%len(anyBenefits)]
			next++
		}
		list[i] = feature{escapeMarks(name), benefit}
		words += len(tokens(name)) + len(tokens(benefit))
	}
	if words > maxFeatureWords {
		for i := range list {
			list[i].Benefit = shortBenefits[(next+i)%len(shortBenefits)]
		}
	}
	return list
}

// benefitOf returns what a feature is good for, or "" if no word of it is known.
func benefitOf(name string) string {
	words := tokens(name)
	for _, b := range benefits {
		if slices.ContainsFunc(strings.Fields(b.words), func(w string) bool { return slices.Contains(words, w) }) {
			return b.benefit
		}
	}
	return ""
}
