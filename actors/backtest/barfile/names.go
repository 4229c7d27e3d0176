package barfile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// role is what a column holds.
type role int

const (
	noRole role = iota
	timeRole
	openRole
	highRole
	lowRole
	closeRole
	volumeRole
	assetRole
	roles
)

// String returns the role as reports name it.
func (r role) String() string {
	return [...]string{"", "time", "open", "high", "low", "close", "volume", "asset"}[r]
}

// otherRole is that of columns that hold something else, whatever their other words say. weakRole is that
// of prices that stand for the close if there is no other.
const otherRole, weakRole = roles, roles + 1

// words has the words of column heads by what the columns hold, in the languages of the makers, in lower
// case and without accents.
var words = func() map[string]role {
	of := map[string]role{}
	for r, list := range map[role]string{
		timeRole: "time date datetime timestamp unix datum zeit fecha hora data ora heure tarih zaman dato tid дата время " +
			"日期 时间 時間 交易日期 日付 日付け 날짜 일자 시간 index day ts begin start dtyyyymmdd dateymd window",
		openRole: "open opening o opn eroffnung eroffn eroffnungskurs ouverture ouv apertura abertura aper otwarcie acılıs " +
			"откр открытие 开盘 开盘价 開盤 今开 始値 시가 oppning apning openen",
		highRole: "high h hi max highest hoch hochst tageshoch haut massimo maximo maxima maks yuksek najwyzszy макс максимум " +
			"高 最高 最高价 高値 고가 hoog hogst hogsta hoy",
		lowRole: "low l lo min lowest tief tiefst tagestief bas minimo minima dusuk najnizszy мин минимум 低 最低 最低价 安値 저가 " +
			"laag lagst lagsta lav",
		closeRole: "close closing c cls schluss schlusskurs schlussk cloture fermeture cierre chiusura fechamento zamkniecie " +
			"kapanıs закр закрытие 收盘 收盘价 收盤 終値 종가 slot settle settlement",
		volumeRole: "volume vol v qty quantity volumen umsatz wolumen wol hacim hac tickvol ticks tickvolume объем 成交量 交易量 " +
			"出来高 거래량 omsattning volym",
		assetRole: "symbol ticker asset pair instrument tic isin stock product name code",
		weakRole:  "price last dernier ultimo ultima zuletzt laatst letzter senaste siste kurs цена simdi ostatnio value mid",
		otherRole: "adj adjusted unadjusted interest change chg pct percent vwap vw average avg wap weighted prev previous count " +
			"trades transactions number taker ratio factor div dividend dividends split splits ma ema sma rsi spread amount " +
			"turnover var returns return openint oi diff plot upper lower band week limit size predicted signal per barcount " +
			"quote variation verschil fark изм zmiana",
	} {
		for _, w := range strings.Fields(list) {
			of[w] = r
		}
	}
	return of
}()

// rank orders columns of one role; the least is taken.
type rank int

const (
	begins   rank = iota // the time at which a bar begins
	exactly              // the head is the word
	mixed                // with other words
	bid                  // bid prices
	counted              // volume in the currency of prices, or in ticks
	ask                  // ask prices
	instead              // the price that stands for the close; the time at which a bar ends
	unranked rank = 1 << 10
)

// headWords returns the words of the head of a column in lower case, without accents.
func headWords(head []byte) []string {
	if !utf8.Valid(head) { // an encoding of single bytes
		var b []byte
		for _, c := range head {
			b = utf8.AppendRune(b, rune(c))
		}
		head = b
	}
	var b strings.Builder
	before := ' '
	for _, r := range norm.NFC.String(string(head)) {
		switch {
		case unicode.IsLetter(r):
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				b.WriteByte(' ')
			}
			plain := norm.NFD.String(string(unicode.ToLower(r)))
			if unicode.Is(unicode.Latin, r) {
				plain = strings.NewReplacer("ø", "o", "ł", "l", "ß", "ss").Replace(plain)
				_, size := utf8.DecodeRuneInString(plain)
				plain = plain[:size]
			} else {
				plain = strings.ReplaceAll(norm.NFC.String(plain), "ё", "е")
			}
			b.WriteString(plain)
		case r == '%':
			b.WriteString(" percent ")
		case unicode.IsDigit(r) || unicode.IsMark(r): // such as 1. open
		default:
			b.WriteByte(' ')
		}
		before = r
	}
	return strings.Fields(b.String())
}

// roleOf returns what a column holds by its head, and its rank.
func roleOf(head []byte) (role, rank) {
	list := headWords(head)
	by := mixed
	if r := words[strings.Join(list, "")]; r != noRole { // such as open in "1. open", and "Date Time"
		list, by = []string{strings.Join(list, "")}, exactly
	}
	var has [weakRole + 1]bool
	for _, word := range list {
		if by == mixed && len(word) == 1 && word[0] < utf8.RuneSelf {
			continue // a letter is no word among others
		}
		for prefix, rank := range map[string]rank{"bid": bid, "ask": ask} {
			if rest, ok := strings.CutPrefix(word, prefix); ok {
				word, by = rest, rank
			}
		}
		if word == "usd" || word == "usdt" || word == "currency" || strings.HasPrefix(word, "tick") && word != "ticker" {
			by = counted
		}
		has[words[word]] = true
	}
	switch {
	case has[otherRole]:
		return noRole, unranked
	case has[timeRole] && has[closeRole]:
		return timeRole, instead
	case has[timeRole] && has[openRole]:
		return timeRole, begins
	case has[timeRole] && (has[highRole] || has[lowRole]):
		return noRole, unranked // the time of the high
	case has[timeRole]:
		return timeRole, by
	}
	found := noRole
	for r := openRole; r < roles; r++ {
		if has[r] && found != noRole {
			return noRole, unranked
		}
		if has[r] {
			found = r
		}
	}
	switch {
	case found == noRole && has[weakRole]:
		return closeRole, instead
	case found == noRole:
		return noRole, unranked
	}
	return found, by
}
