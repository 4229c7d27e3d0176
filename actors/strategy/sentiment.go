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
	momentumShare = 0.3  // of the momentum score
	priorSpread   = 0.05 // how far a score can move the prior
	positiveScore = 0.05 // from here a text counts as positive
	maxHeadlines  = 3
	maxHeadline   = 200 // bytes
)

// AssessSentiment is Assess for the strategy sentiment. news holds what is known
// of the asset, in any order: the messages of the window and, so that past scores
// exist, older ones. now, in milliseconds, is the time at which messages have
// their age; later ones do not count. Fewer than three are
// INSUFFICIENT_HISTORY. Where the strategy has fewer than 100 past outcomes the
// prior is moved by the score instead.
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
		return Assessment{}, insufficient("only %d relevant news items are known, %d are needed", len(index.articles), minNews)
	}
	current := &s.past[len(s.past)-1]
	score := index.score() + momentumShare*current.scores[momentumIndex]
	a := b.Assessment(Sentiment, score, directionOf(score, current.belowMean))
	s.pastSentiment()
	s.calibrateSentiment(&a, b)
	a.Indicators = []string{"news_sentiment", "news_count", "atr_14"}
	a.describeNews(index, current.scores[momentumIndex], now, m.window)
	return a, nil
}

// newsWindow returns how old a message may be, in milliseconds of wall time. In a
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

// pastSentiment computes the score of every bar of the series at its close.
func (s *Series) pastSentiment() {
	m := &s.news
	if m.past != nil {
		return
	}
	m.past = make([]float64, len(s.bars))
	from := s.scoredFrom()
	for j := range m.past {
		m.past[j] = math.NaN()
		if j < from || !s.past[j].scored {
			continue
		}
		if x, ok := m.indexAt(s.bars[j].CloseTime, m.weights); ok {
			m.past[j] = x.score() + momentumShare*s.past[j].scores[momentumIndex]
		}
	}
}

// calibrateSentiment estimates the confidence of a.
func (s *Series) calibrateSentiment(a *Assessment, b Base) {
	known := s.outcomes[riskIndex(a.Risk)]
	strength := math.Abs(a.Score)
	var place rank
	s.scratch = s.scratch[:0]
	for j, score := range s.news.past[:len(s.past)-1] {
		if math.IsNaN(score) {
			continue
		}
		place.add(math.Abs(score), strength)
		if j < len(known) {
			r := known[j].of(directionOf(score, s.past[j].belowMean))
			s.scratch = append(s.scratch, setup{math.Abs(score), r})
		}
	}
	if len(s.scratch) >= minOutcomes {
		a.Calibration = ""
		a.set(weigh(strength, b.Horizon, b.Prior, s.scratch), place)
		return
	}
	// No past entry is comparable, so the sample is empty and what is expected is
	// what any entry brought.
	confidence := clip(b.Prior+priorSpread*math.Tanh(strength), minConfidence, maxConfidence)
	a.set(estimate{confidence: confidence, expectedR: b.ExpectedR}, place)
}

// describeNews fills in what an assessment of news reports.
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
	a.Finding = fmt.Sprintf("the news index is %+.2f over %d items, %.0f %% of them positive, and the momentum score is %+.1f",
		x.value, len(x.articles), 100*share, momentumScore)
	a.Headlines = headlines(x.articles, now, window)
}

// headlines returns those that moved the index most.
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
