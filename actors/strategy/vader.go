package strategy

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jonreiter/govader/data"
)

// The constants of VADER, by Hutto and Gilbert (2014), which are empirical.
const (
	boost       = .293 // of a word such as "very"
	capitals    = .733 // of a word in capitals among others that are not
	negation    = -.74
	neverSo     = 1.25 // of "never so" and "never this"
	beforeBut   = .5
	afterBut    = 1.5
	exclamation = .292
	maxExclaims = 4
	question    = .18
	maxQuestion = .96
	spread      = 15 // of the sum of a text, in the norm
)

// farther is how much the words before a word count, by their distance.
var farther = [...]float64{1, .95, .9}

const (
	boostersUp = "absolutely,amazingly,awfully,completely,considerable,considerably,decidedly,deeply,effing,enormous," +
		"enormously,entirely,especially,exceptional,exceptionally,extreme,extremely,fabulously,flipping,flippin,frackin," +
		"fracking,fricking,frickin,frigging,friggin,fully,fuckin,fucking,fuggin,fugging,greatly,hella,highly,hugely," +
		"incredible,incredibly,intensely,major,majorly,more,most,particularly,purely,quite,really,remarkably,so," +
		"substantially,thoroughly,total,totally,tremendous,tremendously,uber,unbelievably,unusually,utter,utterly,very"
	boostersDown = "almost,barely,hardly,just enough,kind of,kinda,kindof,kind-of,less,little,marginal,marginally,occasional," +
		"occasionally,partly,scarce,scarcely,slight,slightly,somewhat,sort of,sorta,sortof,sort-of"
	negations = "aint,arent,cannot,cant,couldnt,darent,didnt,doesnt,ain't,aren't,can't,couldn't,daren't,didn't,doesn't,dont," +
		"hadnt,hasnt,havent,isnt,mightnt,mustnt,neither,don't,hadn't,hasn't,haven't,isn't,mightn't,mustn't,neednt,needn't," +
		"never,none,nope,nor,not,nothing,nowhere,oughtnt,shant,shouldnt,uhuh,wasnt,werent,oughtn't,shan't,shouldn't,uh-uh," +
		"wasn't,weren't,without,wont,wouldnt,won't,wouldn't,rarely,seldom,despite"
	punctuation = "\"!#$%&\\'()*+,-./:;<=>?@[]^_`{|}~"
)

// idioms have a valence of their own.
var idioms = map[string]float64{"the shit": 3, "the bomb": 3, "bad ass": 1.5, "badass": 1.5, "yeah right": -2,
	"kiss of death": -1.5, "to die for": 3}

// vader scores English texts by the valence of their words and by what stands before these. It is the algorithm of
// https://github.com/cjhutto/vaderSentiment, with its lexicon.
type vader struct {
	lexicon  map[string]float64 // valence, -4 to 4
	emojis   map[rune]string    // in words
	boosters map[string]float64
	negates  map[string]bool
}

func newVader() *vader {
	v := &vader{lexicon: map[string]float64{}, emojis: map[rune]string{}, boosters: map[string]float64{},
		negates: map[string]bool{}}
	for line := range strings.Lines(lexiconFile("rawdata/vaderLexicon.txt")) {
		fields := strings.Split(line, "\t")
		v.lexicon[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
	}
	for line := range strings.Lines(lexiconFile("rawdata/emojiUTF8Lexicon.txt")) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if emoji := []rune(fields[0]); len(emoji) == 1 {
			v.emojis[emoji[0]] = fields[1]
		}
	}
	for _, w := range strings.Split(boostersUp, ",") {
		v.boosters[w] = boost
	}
	for _, w := range strings.Split(boostersDown, ",") {
		v.boosters[w] = -boost
	}
	for _, w := range strings.Split(negations, ",") {
		v.negates[w] = true
	}
	return v
}

// lexiconFile returns a file that is a part of this program.
func lexiconFile(name string) string {
	text, err := data.Asset(name)
	if err != nil {
		panic("read lexicon: " + err.Error())
	}
	return string(text)
}

// score returns the sentiment of a text, from -1 to 1. Words are separated by single spaces.
func (v *vader) score(text string) float64 {
	text = strings.TrimSpace(v.describeEmojis(text))
	words := strings.Split(text, " ")
	lower := make([]string, len(words))
	shouted := 0
	for i, w := range words {
		if bare := strings.Trim(w, punctuation); len(bare) >= 3 {
			words[i] = bare
		}
		if inCapitals(words[i]) {
			shouted++
		}
		lower[i] = strings.ToLower(words[i])
	}
	t := &vaderText{v, words, lower, shouted > 0 && shouted < len(words)}
	but := slices.Index(lower, "but")
	sum := 0.0
	for i := range words {
		valence := t.valence(i)
		switch {
		case but < 0 || i == but:
		case i < but:
			valence *= beforeBut
		default:
			valence *= afterBut
		}
		sum += valence
	}
	if emphasis := emphasisOf(text); sum > 0 {
		sum += emphasis
	} else if sum < 0 {
		sum -= emphasis
	}
	return sum / math.Sqrt(sum*sum+spread)
}

// describeEmojis replaces emojis by words.
func (v *vader) describeEmojis(text string) string {
	var b strings.Builder
	spaced := true
	for _, r := range text {
		words, isEmoji := v.emojis[r]
		if !isEmoji {
			b.WriteRune(r)
			spaced = r == ' '
			continue
		}
		if !spaced {
			b.WriteByte(' ')
		}
		b.WriteString(words)
		spaced = false
	}
	return b.String()
}

// emphasisOf returns what exclamation and question marks add to a text.
func emphasisOf(text string) float64 {
	emphasis := float64(min(strings.Count(text, "!"), maxExclaims)) * exclamation
	switch n := strings.Count(text, "?"); {
	case n > 3:
		emphasis += maxQuestion
	case n > 1:
		emphasis += float64(n) * question
	}
	return emphasis
}

// inCapitals reports whether a word has letters A to Z and none of a to z.
func inCapitals(word string) bool {
	capital := false
	for i := range len(word) {
		switch c := word[i]; {
		case 'a' <= c && c <= 'z':
			return false
		case 'A' <= c && c <= 'Z':
			capital = true
		}
	}
	return capital
}

// vaderText is a text in words.
type vaderText struct {
	*vader
	words, lower []string
	capitals     bool // some words are in capitals, and others are not
}

// valence returns that of the i-th word.
func (t *vaderText) valence(i int) float64 {
	word := t.lower[i]
	valence, known := t.lexicon[word]
	_, boosts := t.boosters[word]
	if !known || boosts || word == "kind" && i+1 < len(t.lower) && t.lower[i+1] == "of" {
		return 0
	}
	said := valence
	if word == "no" && i+1 < len(t.lower) {
		if _, next := t.lexicon[t.lower[i+1]]; next {
			valence = 0
		}
	}
	if t.is(i-1, "no") || t.is(i-2, "no") || t.is(i-3, "no") && (t.is(i-1, "or") || t.is(i-1, "nor")) {
		valence = said * negation
	}
	if t.capitals && inCapitals(t.words[i]) {
		valence += away(valence, capitals)
	}
	for distance := range farther {
		before := i - 1 - distance
		if before < 0 {
			break
		}
		if _, known := t.lexicon[t.words[before]]; known {
			continue
		}
		valence += t.boosted(before, valence) * farther[distance]
		valence = t.negated(i, distance, valence)
		if distance == len(farther)-1 {
			valence = t.idiom(i, valence)
		}
	}
	return t.least(i, valence)
}

// is reports whether the i-th word exists and is this one.
func (t *vaderText) is(i int, word string) bool { return i >= 0 && t.lower[i] == word }

// away returns x with the sign of valence, or below zero if that is 0.
func away(valence, x float64) float64 {
	if valence > 0 {
		return x
	}
	return -x
}

// boosted returns what the i-th word adds to the valence of one after it.
func (t *vaderText) boosted(i int, valence float64) float64 {
	scale, ok := t.boosters[t.lower[i]]
	if !ok {
		return 0
	}
	if valence < 0 {
		scale = -scale
	}
	if t.capitals && inCapitals(t.words[i]) {
		scale += away(valence, capitals)
	}
	return scale
}

// negated returns the valence of the i-th word after the negation by the word at a distance before it.
func (t *vaderText) negated(i, distance int, valence float64) float64 {
	before := i - 1 - distance
	if distance > 0 && t.is(before, "never") && t.oneOf(before+1, i-1, "so", "this") {
		return valence * neverSo
	}
	if distance > 0 && t.is(before, "without") && t.oneOf(before+1, i-1, "doubt") {
		return valence
	}
	if w := t.lower[before]; t.negates[w] || strings.Contains(w, "n't") {
		return valence * negation
	}
	return valence
}

// oneOf reports whether one of the words from the i-th to the j-th is one of the given ones.
func (t *vaderText) oneOf(i, j int, given ...string) bool {
	return slices.ContainsFunc(t.lower[i:j+1], func(w string) bool { return slices.Contains(given, w) })
}

// idiom returns the valence of the i-th word within an idiom, and after boosters of two or three words. Three words
// stand before it.
func (t *vaderText) idiom(i int, valence float64) float64 {
	phrase := func(from, to int) string { return strings.Join(t.lower[from:to+1], " ") }
	for _, p := range []string{phrase(i-1, i), phrase(i-2, i), phrase(i-2, i-1), phrase(i-3, i-1), phrase(i-3, i-2)} {
		if v, ok := idioms[p]; ok {
			valence = v
			break
		}
	}
	for last := i + 1; last <= i+2 && last < len(t.lower); last++ {
		if v, ok := idioms[phrase(i, last)]; ok {
			valence = v
		}
	}
	return valence + t.boosters[phrase(i-3, i-1)] + t.boosters[phrase(i-3, i-2)] + t.boosters[phrase(i-2, i-1)]
}

// least returns the valence of the i-th word after "least", which negates unless "at" or "very" stands before it.
func (t *vaderText) least(i int, valence float64) float64 {
	if i == 0 || t.words[i-1] != "least" {
		return valence
	}
	if _, known := t.lexicon["least"]; known || i > 1 && (t.words[i-2] == "at" || t.words[i-2] == "very") {
		return valence
	}
	return valence * negation
}
