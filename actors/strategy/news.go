package strategy

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Constants of the strategy sentiment.
const (
	momentumShare = 0.3  // the weight of the momentum score
	priorSpread   = 0.05 // the maximum by which a score moves the prior
	positiveScore = 0.05 // texts from this score on count as positive
	maxHeadlines  = 3
	maxHeadline   = 200 // bytes
)

// NewsItem is a message about an asset.
type NewsItem struct {
	ID       string
	At       int64 // milliseconds since 1970, UTC
	Headline string
	Body     string // may be empty
	Source   string
	Weight   float64  // of the source; 0 means 1
	Symbols  []string // assets that it is about according to the source
	// Relevance is 1 if the headline names the asset in question and 0.5 if the asset is
	// named elsewhere. 0 means 1. See the function Relevance.
	Relevance float64
}

// Relevance returns 1 if the headline of item contains one of an asset's names, 0.5 if
// only its symbols do, and 0 if the item is not about the asset.
func Relevance(item NewsItem, names []string) float64 {
	headline := " " + strings.Join(tokens(item.Headline), " ") + " "
	tagged := false
	for _, name := range names {
		words := tokens(name)
		if len(words) > 0 && strings.Contains(headline, " "+strings.Join(words, " ")+" ") {
			return 1
		}
		tagged = tagged || slices.ContainsFunc(item.Symbols, func(s string) bool { return strings.EqualFold(s, name) })
	}
	if tagged {
		return 0.5
	}
	return 0
}

// minNews is the minimum number of messages for a sentiment.
const minNews = 3

// nearDuplicate is the share of common words from which on two headlines count as one
// message.
const nearDuplicate = 0.8

// newsWindow returns the maximum age of a message, in market time.
func newsWindow(tf signal.Timeframe) (hours int64) {
	switch tf {
	case signal.M1:
		return 2
	case signal.M5:
		return 6
	case signal.H1:
		return 48
	case signal.D1:
		return 7 * 24
	}
	return 0
}

// article is a message as the strategy sees it.
type article struct {
	item   NewsItem
	score  float64  // of the text, -1 to 1
	weight float64  // source times relevance
	words  []uint64 // hashes of the headline's different words, in order
	marks  uint64   // a bit for each word; two words may share one
}

// newArticle scores item: by its headline, or by its body if the headline is neutral.
func newArticle(item NewsItem) article {
	a := article{item: item, score: TextScore(item.Headline)}
	if a.score == 0 && item.Body != "" {
		a.score = TextScore(item.Body)
	}
	a.weight = cmp.Or(item.Weight, 1) * cmp.Or(item.Relevance, 1)
	if !(a.weight > 0) || !finite(a.weight) {
		a.weight = 0
	}
	for _, w := range tokens(cut(item.Headline, maxTextBytes)) {
		h := fnv.New64a()
		h.Write([]byte(w)) // never fails
		a.words = append(a.words, h.Sum64())
	}
	slices.Sort(a.words)
	a.words = slices.Compact(a.words)
	for _, w := range a.words {
		a.marks |= 1 << (w % 64)
	}
	return a
}

// repeats reports whether a and b have the same headline apart from a few words.
func (a *article) repeats(b *article) bool {
	x, y := a.words, b.words
	if len(x)+len(y) == 0 {
		return true
	}
	// The number of common words at which their share in all words is nearDuplicate.
	minCommon := nearDuplicate/(1+nearDuplicate)*float64(len(x)+len(y)) - 1e-9
	// Each bit that only one of them has is at least one word that the other lacks.
	if maxCommon := len(x) - bits.OnesCount64(a.marks&^b.marks); float64(maxCommon) < minCommon {
		return false
	}
	if maxCommon := len(y) - bits.OnesCount64(b.marks&^a.marks); float64(maxCommon) < minCommon {
		return false
	}
	common := 0
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch {
		case x[i] == y[j]:
			common, i, j = common+1, i+1, j+1
		case x[i] < y[j]:
			i++
		default:
			j++
		}
	}
	return float64(common) >= minCommon
}

// newsMemory caches what was computed from news: each message is scored once, and the
// scores at earlier bars are computed once per bar.
type newsMemory struct {
	given    []NewsItem // of the last call of take
	window   int64      // ms
	articles []article  // by time, without repetitions
	read     map[string]article

	weights []float64 // of articles at the close of the last bar; nil: not computed
	history []float64 // score of each bar of the series; NaN: too little news; nil: not computed
}

// forgetScores drops what depends on the last bar.
func (m *newsMemory) forgetScores() { m.weights, m.history = nil, nil }

// take scores the messages that are new in news.
func (m *newsMemory) take(news []NewsItem, window int64) {
	if m.window == window && m.has(news) {
		return
	}
	read := make(map[string]article, len(news))
	all := make([]article, 0, len(news))
	for _, item := range news {
		if _, twice := read[item.ID]; twice && item.ID != "" {
			continue
		}
		a, ok := m.read[item.ID]
		if !ok || !sameItem(&a.item, &item) {
			a = newArticle(item)
		}
		if a.weight > 0 {
			read[item.ID] = a
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b article) int {
		return cmp.Or(cmp.Compare(a.item.At, b.item.At), strings.Compare(a.item.ID, b.item.ID))
	})
	*m = newsMemory{given: slices.Clone(news), window: window, articles: unrepeated(all, window), read: read}
}

// has reports whether news equal those of the last call of take.
func (m *newsMemory) has(news []NewsItem) bool {
	if len(m.given) != len(news) {
		return false
	}
	for i := range news {
		if !sameItem(&m.given[i], &news[i]) {
			return false
		}
	}
	return true
}

func sameItem(a, b *NewsItem) bool {
	return a.ID == b.ID && a.At == b.At && a.Headline == b.Headline && a.Body == b.Body &&
		a.Weight == b.Weight && a.Relevance == b.Relevance
}

// unrepeated returns the articles that do not repeat one kept within the window before
// them. Whether an article is kept depends only on earlier ones.
func unrepeated(all []article, window int64) []article {
	kept := make([]article, 0, len(all))
	for i := range all {
		a := &all[i]
		repeated := false
		for j := len(kept) - 1; j >= 0 && kept[j].item.At > a.item.At-window && !repeated; j-- {
			repeated = a.repeats(&kept[j])
		}
		if !repeated {
			kept = append(kept, *a)
		}
	}
	return kept
}

// newsIndex is the weighted mean of text scores.
type newsIndex struct {
	articles  []article // the articles averaged
	value     float64   // -1 to 1
	effective float64   // number of articles, discounted for unequal weights
}

// score returns the contribution of the news to the score of sentiment.
func (x newsIndex) score() float64 { return x.value / 0.25 * x.effective / (x.effective + 4) }

// decays returns the weight of each article at the time reference: it halves every
// quarter of the window. Another reference changes all weights by the same factor, which
// leaves every index unchanged.
func (m *newsMemory) decays(reference int64) []float64 {
	weights := make([]float64, len(m.articles))
	for i := range m.articles {
		a := &m.articles[i]
		weights[i] = a.weight * math.Exp2(float64(a.item.At-reference)/(float64(m.window)/4))
	}
	return weights
}

// indexAt returns the index of the articles in the window that ends at the given time, or
// false if there are too few. weights are those of decays.
func (m *newsMemory) indexAt(at int64, weights []float64) (newsIndex, bool) {
	byTime := func(a article, t int64) int { return cmp.Compare(a.item.At, t) }
	to, _ := slices.BinarySearchFunc(m.articles, at+1, byTime)
	from := to
	var sum, squares, scores float64
	for from > 0 && m.articles[from-1].item.At > at-m.window {
		from--
		w := weights[from]
		sum += w
		squares += w * w
		scores += w * m.articles[from].score
	}
	x := newsIndex{articles: m.articles[from:to]}
	if to-from < minNews || !(squares > 0) || !finite(squares) {
		return x, false
	}
	x.value, x.effective = scores/sum, sum*sum/squares
	return x, true
}

// scoreAll computes the score at the close of every bar, unless it is known.
func (m *newsMemory) scoreAll(b *scoredBars) {
	if m.history != nil {
		return
	}
	m.history = make([]float64, len(b.bars))
	from := b.scoredFrom()
	for j := range m.history {
		m.history[j] = math.NaN()
		if j < from || !b.history[j].scored {
			continue
		}
		if x, ok := m.indexAt(b.bars[j].CloseTime, m.weights); ok {
			m.history[j] = x.score() + momentumShare*b.history[j].scores[momentumIndex]
		}
	}
}

// describe sets the members of an assessment that describe the news.
func (x newsIndex) describe(a *Assessment, momentumScore float64, now, window int64) {
	positive := 0
	for i := range x.articles {
		if x.articles[i].score >= positiveScore {
			positive++
		}
	}
	share := float64(positive) / float64(len(x.articles))
	a.Values = map[string]any{
		"news_sentiment": map[string]any{"index": round(x.value, 4), "share_positive": round(share, 4)},
		"news_count":     len(x.articles),
		"atr_14":         significant(a.ATR),
	}
	a.Finding = fmt.Sprintf("the news index is %+.2f over %d items, %.0f %% of them positive, "+
		"and the momentum score is %+.1f", x.value, len(x.articles), 100*share, momentumScore)
	a.Headlines = headlines(x.articles, now, window)
}

// headlines returns the headlines that moved the index most.
func headlines(articles []article, now, window int64) []string {
	weight := func(a article) float64 {
		return a.weight * math.Abs(a.score) * math.Exp2(float64(a.item.At-now)/(float64(window)/4))
	}
	ordered := slices.Clone(articles)
	slices.SortStableFunc(ordered, func(a, b article) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(b.item.At, a.item.At))
	})
	list := make([]string, 0, maxHeadlines)
	for _, a := range ordered[:min(maxHeadlines, len(ordered))] {
		list = append(list, cut(a.item.Headline, maxHeadline))
	}
	return list
}
