package content

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// noun is a subject in the forms of English sentences, guessed from its words. If the
// guess is uncertain all forms are without an article, which is never quite wrong.
type noun struct {
	Bare  string // "standing desk"; a question stands in quotes
	A     string // "a standing desk", "running shoes", "olive oil"
	This  string // "this standing desk", "these running shoes"
	Title string // "Standing Desk"
	Many  bool   // plural
}

// Them is the pronoun of the noun as an object.
func (n noun) Them() string { return n.number("it", "them") }

func (n noun) number(one, many string) string {
	if n.Many {
		return many
	}
	return one
}

// replacer replaces names in braces by the noun and the words that agree with it.
func (n noun) replacer() *strings.Replacer {
	return strings.NewReplacer("{a}", n.A, "{name}", n.Bare, "{this}", n.This, "{T}", n.Title, "{A}", titleCase(n.A),
		"{N}", upperFirst(n.Bare), "{it}", n.number("it", "they"), "{them}", n.Them(), "{s}", n.number("s", ""),
		"{is}", n.number("is", "are"), "{was}", n.number("was", "were"), "{does}", n.number("does", "do"),
		"{go}", n.number("goes", "go"))
}

// nounOf returns s, which is not escaped, as a noun. A subject in another language is
// treated as a name.
func nounOf(s string, english bool) noun {
	s = strings.TrimSpace(strings.ReplaceAll(s, "_", " "))
	if bare := strings.TrimRight(s, ".!?,;: "); bare != "" {
		s = bare // trailing marks would end a sentence
	}
	text := escapeMarks(s)
	n := noun{Bare: text, A: text, This: text, Title: escapeMarks(titleCase(s))}
	words := strings.Fields(strings.ToLower(s))
	switch head := headOf(words); {
	case len(words) > 2 && words[0] == "how" && words[1] == "to":
		n.This = "this guide on " + text
	case isQuestion(words):
		n.Bare = "“" + text + "”"
		n.A, n.This, n.Title = n.Bare, "this guide to "+n.Bare, n.Title+"?"
	case len(words) > 1 && slices.Contains(articles, words[0]):
		// It has its article.
	case !english:
	case isPlural(head):
		n.Many = true
		n.This = "these " + text
	case isName(headOf(strings.Fields(s))) || strings.Contains(s, "'s ") || strings.Contains(s, "’s "):
	case slices.Contains(substances, head) || isOf(kindFood, head):
		n.This = "this " + text
	case isAbstract(head):
	default:
		n.A, n.This = indefinite(text)+" "+text, "this "+text
	}
	return n
}

// isName reports whether a word looks like a name: it has a capital, or characters other
// than letters and hyphens.
func isName(w string) bool {
	return w != strings.ToLower(w) || strings.ContainsFunc(w,
		func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsLetter(c) && c != '-' })
}

// articles begin a noun that needs no further one.
var articles = strings.Fields("a an the this these my your our")

// indefinite returns the indefinite article of a noun by its pronunciation. Abbreviations
// of up to three letters are spelled out.
func indefinite(s string) string {
	first, _, _ := strings.Cut(strings.ReplaceAll(s, "-", " "), " ")
	lower := strings.ToLower(first)
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(lower, p) })
	}
	// The exceptions begin like "you" and "won".
	an := begins("a", "e", "i", "o", "u", "8") && !begins("uni", "use", "usa", "eu", "one", "once", "ubi", "uto") ||
		begins("hour", "honest", "honour", "honor", "heir", "unin", "unim") ||
		first == "11" || first == "18" || first == "x"
	if len(first) <= 3 && len(first) > 1 && first == strings.ToUpper(first) && unicode.IsLetter(rune(first[0])) {
		an = strings.ContainsAny(first[:1], "AEFHILMNORSX")
	}
	if an {
		return "an"
	}
	return "a"
}

// questionWords begin a subject that is a question or a task.
var questionWords = strings.Fields("how what why when where who which is are can should do does")

func isQuestion(words []string) bool {
	return len(words) > 1 && slices.Contains(questionWords, words[0])
}

var prepositions = strings.Fields("for of in with to from on at without by under near")

// headOf returns the head of a noun phrase: the last word before a preposition.
func headOf(words []string) string {
	head := ""
	for i, w := range words {
		if i > 0 && slices.Contains(prepositions, w) {
			break
		}
		head = w
	}
	return head
}

// singulars are the endings of words that end in s without being plural.
var singulars = strings.Fields("ss us is lens gas bias atlas canvas series species news physics mathematics " +
	"economics electronics analytics logistics politics")

// isPlural guesses whether a noun is plural.
func isPlural(w string) bool {
	if slices.Contains([]string{"men", "women", "people", "children", "feet", "teeth"}, w) {
		return true
	}
	return len(w) > 3 && strings.HasSuffix(w, "s") && !slices.ContainsFunc(singulars,
		func(end string) bool { return strings.HasSuffix(w, end) })
}

// substances are things that have no plural and no article; abstracts are no things.
var (
	substances = strings.Fields(`oil bread coffee tea water milk wine beer juice honey rice flour sugar salt cheese
		butter chocolate pasta soap shampoo cream sunscreen perfume paint wood paper fabric leather wool cotton
		furniture equipment clothing jewellery jewelry luggage bedding lingerie cutlery crockery software hardware
		wheat corn gas gold silver steel`)
	abstracts = strings.Fields(`work seo ai yoga health energy power art music law history advice travel skin hair
		data content code time money food insurance finance care sleep research science culture sport football tennis
		golf weather economics electronics analytics logistics physics politics mathematics news tax debt credit
		privacy email internet blockchain bitcoin astronomy photography pilates homework makeup`)
)

func isAbstract(w string) bool {
	if slices.Contains(abstracts, w) {
		return true
	}
	return slices.ContainsFunc([]string{"ing", "tion", "sion", "ness", "ity", "ism", "ance", "ence", "ship", "ware",
		"care", "ology", "ics", "culture"},
		func(end string) bool { return strings.HasSuffix(w, end) && len(w) > len(end)+2 })
}

// smallWords are not capitalised in titles.
var smallWords = strings.Fields("a an the and but or nor for of in on at to by with from as")

// titleCase capitalises the words of a text, except small words inside and words with a
// capital such as iPhone.
func titleCase(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		if i == 0 || !slices.Contains(smallWords, w) {
			words[i] = upperFirst(w)
		}
	}
	return strings.Join(words, " ")
}

// upperFirst capitalises a text, unless its first word contains a capital.
func upperFirst(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if word != strings.ToLower(word) {
		return s
	}
	for i, c := range s {
		if unicode.IsLetter(c) {
			return s[:i] + string(unicode.ToUpper(c)) + s[i+utf8.RuneLen(c):]
		}
		if unicode.IsDigit(c) {
			break
		}
	}
	return s
}
