package strategy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

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

// AssessSentiment is Assess for the strategy sentiment. news holds the known messages
// about the asset in any order: those of the window, and older ones for the scores at
// earlier bars. now, in milliseconds, is the time from which ages count; later messages
// are ignored. With fewer than three messages the error is INSUFFICIENT_HISTORY. With
// fewer than 100 earlier outcomes the confidence is the prior, moved by the score.
func (s *Series) AssessSentiment(news []NewsItem, risk signal.RiskLevel, now int64) (Assessment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.base(risk)
	if err != nil {
		return Assessment{}, err
	}
	m := &s.news
	m.take(news, s.newsWindow())
	if m.weights == nil {
		m.weights = m.decays(b.Bar.CloseTime)
	}
	index, ok := m.indexAt(now, m.weights)
	if !ok {
		known := len(index.articles)
		return Assessment{}, insufficient("only %d relevant news items are known, %d are needed", known, minNews)
	}
	current := &s.history[len(s.history)-1]
	score := index.score() + momentumShare*current.scores[momentumIndex]
	a := b.Assessment(Sentiment, score, directionOf(score, current.belowMean))
	s.sentimentHistory()
	s.calibrateSentiment(&a, b)
	a.Indicators = []string{"news_sentiment", "news_count", "atr_14"}
	a.describeNews(index, current.scores[momentumIndex], now, m.window)
	return a, nil
}

// newsWindow returns the maximum age of a message in milliseconds by the clock. In a
// compressed market bars are shorter than their timeframe, and so is the window.
func (s *Series) newsWindow() int64 {
	full := s.tf.Duration().Milliseconds()
	longest := int64(1)
	for _, b := range s.bars[max(0, len(s.bars)-bandLength):] {
		longest = max(longest, b.CloseTime-b.OpenTime)
	}
	w := newsWindow(s.tf) * time.Hour.Milliseconds()
	return max(1, int64(float64(w)*min(1, float64(longest)/float64(full))))
}

// sentimentHistory computes the score at the close of every bar of the series.
func (s *Series) sentimentHistory() {
	m := &s.news
	if m.history != nil {
		return
	}
	m.history = make([]float64, len(s.bars))
	from := s.scoredFrom()
	for j := range m.history {
		m.history[j] = math.NaN()
		if j < from || !s.history[j].scored {
			continue
		}
		if x, ok := m.indexAt(s.bars[j].CloseTime, m.weights); ok {
			m.history[j] = x.score() + momentumShare*s.history[j].scores[momentumIndex]
		}
	}
}

// calibrateSentiment sets the confidence of a.
func (s *Series) calibrateSentiment(a *Assessment, b Base) {
	known := s.outcomes[riskIndex(a.Risk)]
	strength := math.Abs(a.Score)
	var place rank
	var all, near count
	for j, score := range s.news.history[:len(s.history)-1] {
		if math.IsNaN(score) {
			continue
		}
		place.add(math.Abs(score), strength)
		if j < len(known) {
			won := 0.0
			if known[j].of(directionOf(score, s.history[j].belowMean)) > 0 {
				won = 1
			}
			x := (math.Abs(score) - strength) / kernelWidth
			w := math.Exp(-0.5 * x * x)
			all, near = count{all.n + 1, all.won + won}, count{near.n + w, near.won + w*won}
		}
	}
	e := estimateFrom(b.Prior, b.Horizon, all, near, count{})
	if all.n < minOutcomes {
		p := clip(b.Prior+priorSpread*math.Tanh(strength), minConfidence, maxConfidence)
		e = estimate{confidence: p, sample: b.Entries, share: math.NaN()}
	} else {
		a.Calibration = ""
	}
	a.set(e, place)
}

// describeNews sets the members of an assessment that describe the news.
func (a *Assessment) describeNews(x newsIndex, momentumScore float64, now, window int64) {
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
