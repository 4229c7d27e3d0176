package barfile

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// layout is what a file was recognized as.
type layout struct {
	delimiter byte
	width     int      // cells of a row
	header    []byte   // the line that names the columns; nil: there is none
	headLine  int      // its number; 0: there is none
	firstRow  int      // the number of the first line that may be a row
	notes     []string // lines before the first row
	names     []string // of the columns, by column; empty without a header
	at        [roles]int
	clockAt   int  // the column with the time of day if it is not in that of the time; -1: none
	longClock bool // its numbers have seconds
	slashed   bool // the dates have an order of day and month
	times     timeReader
	decimal   DecimalSign
	scale     float64 // prices are divided by it
	places    int     // the most digits after the decimal sign of a price
}

const (
	maxColumns = 1000
	// maxSampleRows is the number of rows by which columns are recognized, and also that of the lines before them.
	maxSampleRows = 1000
	// mostOf is the share of the sample that must agree.
	mostOf = 0.8
)

// sample is the beginning of a file, split by a delimiter.
type sample struct {
	head  [][]byte   // all lines
	lines [][][]byte // the cells of those that were split
	first int        // the index of the first line that looks like a row
	rows  [][][]byte // from there those with the usual number of cells
	kinds []kind     // of the columns
}

// recognize finds the layout of a file by its first lines.
func recognize(head [][]byte, o *Options) (*layout, error) {
	var first error
	narrow := 0 // columns with numbers beside a time
	// A comma may also be a decimal sign, and spaces may stand in dates.
	for _, d := range []byte{'\t', ';', '|', ',', spaces} {
		l := &layout{delimiter: d, clockAt: -1, scale: 1, times: timeReader{order: o.Dates}, decimal: o.Decimal}
		l.at = [roles]int{-1, -1, -1, -1, -1, -1, -1, -1}
		s, numbers := l.sample(head)
		if narrow = max(narrow, numbers); s == nil {
			continue
		}
		err := l.find(s)
		if err == nil {
			return l, nil
		}
		first = cmp.Or(first, err)
	}
	if first != nil {
		return nil, first
	}
	i := slices.IndexFunc(head, func(line []byte) bool { return !isBlank(line) })
	if i < 0 {
		return nil, refusal("the file is empty")
	}
	if narrow > 0 {
		return nil, refusal("no line has a time and four prices, only times with %d numbers: these are ticks or closes; "+
			"make bars of them, with open, high, low and close; the file begins %s", narrow, quoted(head[i]))
	}
	return nil, refusal("no line has a time and four prices (open, high, low, close), separated by commas, semicolons, tabs, "+
		"bars or spaces; the file begins %s", quoted(head[i]))
}

// sample splits the first lines. Without a line that looks like a row it is nil, and numbers is how many stand beside a
// time.
func (l *layout) sample(head [][]byte) (s *sample, numbers int) {
	s = &sample{head: head, first: -1}
	widths := map[int]int{}
	for i, line := range head[:min(len(head), 2*maxSampleRows)] {
		var cells [][]byte
		if !isBlank(line) && line[0] != '#' {
			cells = split(nil, line, l.delimiter)
		}
		s.lines = append(s.lines, cells)
		if s.first < 0 {
			time, n := contents(cells)
			switch {
			case time && n >= 4:
				s.first = i
			case time:
				numbers = max(numbers, n)
			}
		}
		if s.first >= 0 && len(cells) > 0 {
			widths[len(cells)]++
		}
	}
	if s.first < 0 {
		return nil, numbers
	}
	for w, n := range widths {
		if n > widths[l.width] || n == widths[l.width] && w > l.width {
			l.width = w
		}
	}
	for _, cells := range s.lines[s.first:] {
		if len(cells) == l.width && len(s.rows) < maxSampleRows {
			s.rows = append(s.rows, cells)
		}
	}
	return s, numbers
}

// isBlank reports whether a line has nothing but spaces.
func isBlank(line []byte) bool {
	return len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0
}

// anyTime reads a time with any order of day and month.
func anyTime(cell []byte) (stamp, bool) {
	s, ok := (&timeReader{}).parse(cell)
	if !ok {
		s, ok = (&timeReader{order: MonthFirst}).parse(cell)
	}
	return s, ok
}

// anyNumber reads a number with any decimal sign.
func anyNumber(cell []byte) (float64, bool) {
	v, ok := parseNumber(cell, '.')
	if !ok {
		v, ok = parseNumber(cell, ',')
	}
	return v, ok
}

// contents reports whether cells have a date, and how many have a number.
func contents(cells [][]byte) (date bool, numbers int) {
	for _, c := range cells[:min(len(cells), maxColumns)] {
		if s, ok := anyTime(c); ok && s.day && (!date || s.unit == written && !allDigits(c)) {
			date = true
		} else if _, ok := anyNumber(c); ok {
			numbers++
		}
	}
	return date, numbers
}

// find finds what the columns hold.
func (l *layout) find(s *sample) error {
	if l.width > maxColumns {
		return refusal("a line has %d columns, more than %d: a file has the bars of one asset", l.width, maxColumns)
	}
	l.findHeader(s)
	s.kinds = kindsOf(s.rows, l.width)
	if !l.findTime(s) {
		return refusal("no column has times")
	}
	if err := l.decideOrder(s); err != nil {
		return err
	}
	if err := l.decideDecimal(s); err != nil {
		return err
	}
	if err := l.findPrices(s); err != nil {
		return err
	}
	l.findScale(s.rows)
	l.noteLines(s)
	return nil
}

// findHeader finds the line that names the columns: of those before the first row the one with most names of prices, or
// in an unknown language one with as many cells as the rows.
func (l *layout) findHeader(s *sample) {
	best, at := 2, -1
	for i, cells := range s.lines[:s.first] {
		known := 0
		for _, cell := range cells[:min(len(cells), maxColumns)] {
			if r, _ := roleOf(cell); r >= openRole && r <= volumeRole {
				known++
			}
		}
		if known >= best {
			best, at = known, i
		}
	}
	if before := s.first - 1; at < 0 && before >= 0 && len(s.lines[before]) == l.width {
		at = before
	}
	if l.firstRow = s.first + 1; at < 0 {
		return
	}
	l.header, l.headLine, l.firstRow = s.head[at], at+1, at+2
	cells, first := s.lines[at], s.lines[s.first]
	if len(cells)+1 == l.width && len(first[len(first)-1]) > 0 {
		l.names = append(l.names, "") // that of an index, which programs leave out
	}
	for _, c := range cells {
		l.names = append(l.names, strings.ToValidUTF8(string(c), "\ufffd"))
	}
	l.names = append(l.names, make([]string, l.width)...)[:l.width]
}

// noteLines notes the lines before the first row that are no rows.
func (l *layout) noteLines(s *sample) {
	for i, cells := range s.lines[:s.first] {
		if i+1 == l.headLine || isBlank(s.head[i]) {
			continue
		}
		if _, ok := l.stampOf(cells); ok && i+1 >= l.firstRow {
			return // a row with a fault
		}
		l.notes = append(l.notes, fmt.Sprintf("line %d: %s", i+1, quoted(s.head[i])))
		l.firstRow = max(l.firstRow, i+2)
	}
}

// kind is what the values of a column look like.
type kind struct {
	full, dates, clocks, counts, numbers, text, rows int
	digits                                           int  // of the longest compact clock
	steady                                           bool // times ascend or descend
	midnight                                         bool // all times of day are 00:00
}

// kindsOf returns what the values of each column look like.
func kindsOf(rows [][][]byte, width int) []kind {
	kinds := make([]kind, width)
	for c := range kinds {
		k := &kinds[c]
		k.midnight = true
		var last int64
		up, down := 0, 0
		for _, row := range rows {
			cell := row[c]
			if absent(cell) {
				continue
			}
			k.rows++
			s, isTime := anyTime(cell)
			if !isTime {
				if _, ok := anyNumber(cell); !ok {
					k.text++
				} else if k.numbers++; len(cell) <= 6 && allDigits(cell) {
					k.digits = max(k.digits, len(cell))
				}
				continue
			}
			switch {
			case s.unit != written:
				k.counts++
			case s.day && s.clock:
				k.full++
			case s.day:
				k.dates++
			default:
				k.clocks++
			}
			k.midnight = k.midnight && s.ms%dayMs == 0
			up, down = up+bit(s.ms >= last), down+bit(s.ms <= last)
			last = s.ms
		}
		k.steady = k.mostly(max(up, down))
	}
	return kinds
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mostly reports whether n is nearly all of the values.
func (k *kind) mostly(n int) bool { return n > 0 && float64(n) >= mostOf*float64(k.rows) }

// number reports whether a column may have prices: it is neither text nor times.
func (k *kind) number() bool {
	return k.rows == 0 || k.mostly(k.numbers+k.counts+k.dates) && !(k.steady && k.mostly(k.counts))
}

// findTime finds the columns of the time; false if there are none.
func (l *layout) findTime(s *sample) bool {
	best, clock := unranked+2, -1
	for c := range s.kinds {
		k := &s.kinds[c]
		named, by := noRole, unranked
		if c < len(l.names) {
			named, by = roleOf([]byte(l.names[c]))
		}
		isTime := named == timeRole
		switch {
		case k.mostly(k.clocks) || isTime && k.digits > 2 && k.mostly(k.numbers):
			if clock < 0 {
				clock = c
			}
			continue
		case !k.mostly(k.full+k.dates) && !(k.mostly(k.counts) && (isTime || k.steady)),
			named >= openRole && named <= volumeRole && k.counts+k.numbers > 0:
			continue
		case !isTime:
			by = unranked
		}
		if k.full+k.counts == 0 {
			by++ // a date: another column may have the time of day as well
		}
		if by < best {
			best, l.at[timeRole] = by, c
		}
	}
	if best > unranked+1 {
		return false
	}
	if k := &s.kinds[l.at[timeRole]]; clock >= 0 && k.counts == 0 && (k.full == 0 || k.midnight) {
		l.clockAt, l.longClock = clock, s.kinds[clock].digits > 4
	}
	return true
}

// decideOrder finds the order of day and month by dates that have only one reading.
func (l *layout) decideOrder(s *sample) error {
	var example []byte
	var dotted bool
	var dayFirst, monthFirst int
	var cells [][]byte
	for _, line := range s.head[s.first:] {
		cells = split(cells[:0], line, l.delimiter)
		if l.at[timeRole] >= len(cells) {
			continue
		}
		p := parts{zone: &l.times}
		if cell := cells[l.at[timeRole]]; p.scan(cell) {
			order, numeric := p.shows()
			if !numeric {
				return nil
			}
			example, dotted = cell, p.sep == '.'
			dayFirst, monthFirst = dayFirst+bit(order == DayFirst), monthFirst+bit(order == MonthFirst)
		}
	}
	if example == nil {
		return nil
	}
	l.slashed = true
	switch {
	case l.times.order != UnknownOrder:
	case dayFirst > monthFirst, dotted && monthFirst == 0:
		l.times.order = DayFirst // no maker writes 06.24.2024
	case monthFirst > 0:
		l.times.order = MonthFirst
	default:
		day, _ := (&timeReader{order: DayFirst}).parse(example)
		month, _ := (&timeReader{order: MonthFirst}).parse(example)
		return refusal("the date %s is %s or %s, and no other date of the file decides: give --dates day-first or "+
			"--dates month-first", quoted(example), dateText(day.ms), dateText(month.ms))
	}
	return nil
}

// decideDecimal finds the decimal sign by the numbers that have only one reading.
func (l *layout) decideDecimal(s *sample) error {
	if l.decimal != UnknownDecimal {
		return nil
	}
	var votes signVotes
	var example []byte
	for c := range s.kinds {
		if c == l.at[timeRole] || c == l.clockAt || !s.kinds[c].number() {
			continue
		}
		for _, row := range s.rows {
			if votes.add(row[c]); example == nil && bytes.IndexByte(row[c], ',') >= 0 {
				example = row[c]
			}
		}
	}
	switch {
	case votes.comma > votes.point:
		l.decimal = Comma
	case votes.point > 0 || example == nil:
		l.decimal = Point
	default:
		point, _ := parseNumber(example, '.')
		comma, _ := parseNumber(example, ',')
		return refusal("the number %s is %v or %v, and no other number of the file decides: give --decimal point or "+
			"--decimal comma", quoted(example), point, comma)
	}
	return nil
}

// findScale finds whether prices are integers of ten-thousandths, as those of Lean's equities, and how many
// digits they have.
func (l *layout) findScale(rows [][][]byte) {
	scaled := l.header == nil && l.delimiter == ',' && l.clockAt < 0
	for _, row := range rows {
		for r := openRole; r <= closeRole; r++ {
			cell := row[l.at[r]]
			if i := bytes.LastIndexByte(cell, l.decimal.sign()); i >= 0 {
				l.places = max(l.places, len(cell)-i-1)
			}
			scaled = scaled && len(cell) >= 4 && allDigits(cell)
		}
		when := row[l.at[timeRole]]
		scaled = scaled && len(when) == len("20060102 15:04") && allDigits(when[:8])
	}
	if scaled {
		l.scale = 10_000
	}
}

// stampOf returns the time of a row.
func (l *layout) stampOf(cells [][]byte) (stamp, bool) {
	at := l.at[timeRole]
	if at >= len(cells) || l.clockAt >= len(cells) {
		return stamp{}, false
	}
	s, ok := l.times.parse(cells[at])
	if !ok || !s.day {
		return s, false
	}
	if l.clockAt >= 0 {
		ms, ok := parseClock(cells[l.clockAt], l.longClock)
		s.ms, s.clock = s.ms+ms, true
		return s, ok
	}
	return s, true
}

// findPrices finds the columns of prices and of the volume: by the header, else by their values.
func (l *layout) findPrices(s *sample) error {
	var of [roles][]int
	ranks := make([]rank, len(l.names))
	named := 0
	for c, name := range l.names {
		if c == l.at[timeRole] || c == l.clockAt {
			continue
		}
		k := &s.kinds[c]
		var r role
		r, ranks[c] = roleOf([]byte(name))
		if r == noRole || r == timeRole || r == assetRole && !k.mostly(k.text) || r != assetRole && !k.number() {
			continue
		}
		if of[r] = append(of[r], c); len(of[r]) == 1 && r <= closeRole {
			named++
		}
	}
	if named < 2 {
		return l.findByContent(s)
	}
	for r := openRole; r < roles; r++ {
		slices.SortStableFunc(of[r], func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
		if c := of[r]; len(c) > 0 {
			if l.at[r] = c[0]; r == volumeRole && len(c) > 1 && allZero(s.rows, c[0]) {
				l.at[r] = c[1] // that of ticks, where no other is known
			}
			if r <= closeRole && len(c) > 1 && ranks[c[0]] == ranks[c[1]] && differ(s.rows, c[0], c[1]) {
				return refusal("line %d: there are two columns %s, %s (column %d) and %s (column %d): leave one of them in the file",
					l.headLine, r, l.nameOf(c[0]), c[0]+1, l.nameOf(c[1]), c[1]+1)
			}
		}
	}
	for r := openRole; r <= closeRole; r++ {
		if l.at[r] < 0 && (named < 3 || !l.findBetween(r, s)) {
			return refusal("line %d: there is no column %s: bars need open, high, low and close, and the columns are %s",
				l.headLine, r, listed(l.columnNames()))
		}
	}
	return nil
}

// columnNames returns the names of the columns.
func (l *layout) columnNames() (names []string) {
	for c := range l.width {
		names = append(names, l.nameOf(c))
	}
	return names
}

// nameOf returns the head of a column, or its number.
func (l *layout) nameOf(c int) string {
	if c < len(l.names) && l.names[c] != "" {
		return quoted([]byte(l.names[c]))
	}
	return fmt.Sprintf("column %d", c+1)
}

// differ reports whether two columns have different values.
func differ(rows [][][]byte, a, b int) bool {
	return slices.ContainsFunc(rows, func(row [][]byte) bool { return !bytes.Equal(row[a], row[b]) })
}

// allZero reports whether all values of a column are 0 or absent.
func allZero(rows [][][]byte, c int) bool {
	return !slices.ContainsFunc(rows, func(row [][]byte) bool {
		v, _ := anyNumber(row[c])
		return v != 0
	})
}

// between reports whether nearly all values of a column lie between low and high.
func (l *layout) between(c int, s *sample) bool {
	n := 0
	for _, row := range s.rows {
		v, ok := parseNumber(row[c], l.decimal.sign())
		high, _ := parseNumber(row[l.at[highRole]], l.decimal.sign())
		low, _ := parseNumber(row[l.at[lowRole]], l.decimal.sign())
		n += bit(ok && low > 0 && v >= low && v <= high)
	}
	return float64(n) >= mostOf*float64(len(s.rows))
}

// findBetween finds a missing open or close: the only column without a name that is known whose values lie between low and
// high.
func (l *layout) findBetween(missing role, s *sample) bool {
	if missing != openRole && missing != closeRole {
		return false
	}
	found := 0
	for c, name := range l.names {
		r, _ := roleOf([]byte(name))
		if r == noRole && c != l.clockAt && c != l.at[timeRole] && s.kinds[c].number() && l.between(c, s) {
			found++
			l.at[missing] = c
		}
	}
	return found == 1
}

// findByContent finds four neighbouring columns one of which is always the highest and one the lowest. Of the
// others the open is nearer to the close of the bar before.
func (l *layout) findByContent(s *sample) error {
	isNumber := func(c int) bool {
		return c != l.at[timeRole] && c != l.clockAt && s.kinds[c].rows > 0 && s.kinds[c].number()
	}
	for first := 0; first+4 <= l.width; first++ {
		if !isNumber(first) || !isNumber(first+1) || !isNumber(first+2) || !isNumber(first+3) || !l.extremes(s.rows, first) {
			continue
		}
		for c := first; c < first+4; c++ {
			switch {
			case c == l.at[highRole] || c == l.at[lowRole]:
			case l.at[openRole] < 0:
				l.at[openRole] = c
			default:
				l.at[closeRole] = c
			}
		}
		if l.closesFirst(s.rows) {
			l.at[openRole], l.at[closeRole] = l.at[closeRole], l.at[openRole]
		}
		for c := first + 4; c < l.width && l.at[volumeRole] < 0 && isNumber(c); c++ {
			if !l.between(c, s) { // that would be the volume-weighted price
				l.at[volumeRole] = c
			}
		}
		return nil
	}
	if l.header != nil {
		return refusal("line %d: the columns %s do not say which are open, high, low and close, and their values do not either",
			l.headLine, listed(l.columnNames()))
	}
	return refusal("there is no header, and no four columns one of which is always the highest and one the lowest: " +
		"add a first line that names them, such as time,open,high,low,close,volume")
}

// extremes sets the columns of high and low if, of four columns, one has the highest and one the lowest values; else it is
// false.
func (l *layout) extremes(rows [][][]byte, first int) bool {
	const maxSpan = 3 // the greatest ratio of high and low
	var highest, lowest [4]int
	n, moved := 0, 0
	for _, row := range rows {
		var v [4]float64
		ok := true
		for i := range v {
			var number bool
			v[i], number = parseNumber(row[first+i], l.decimal.sign())
			ok = ok && number
		}
		if !ok {
			continue
		}
		n++
		top, bottom := slices.Max(v[:]), slices.Min(v[:])
		if !(bottom > 0) || top > maxSpan*bottom {
			continue
		}
		moved += bit(top > bottom)
		for i, x := range v {
			highest[i], lowest[i] = highest[i]+bit(x == top), lowest[i]+bit(x == bottom)
		}
	}
	high, low := 0, 0
	for i := range 4 {
		if highest[i] > highest[high] {
			high = i
		}
		if lowest[i] > lowest[low] {
			low = i
		}
	}
	if least := mostOf * float64(n); high == low || moved == 0 || float64(min(highest[high], lowest[low])) < least {
		return false
	}
	l.at[highRole], l.at[lowRole] = first+high, first+low
	return true
}

// closesFirst reports whether what was taken for the opens are the closes: a close is near to the open of the bar after it.
func (l *layout) closesFirst(rows [][][]byte) bool {
	var asOpen, asClose float64
	var before, after struct{ open, close float64 }
	newest := false
	for i, row := range rows {
		after.open, _ = parseNumber(row[l.at[openRole]], l.decimal.sign())
		after.close, _ = parseNumber(row[l.at[closeRole]], l.decimal.sign())
		if i > 0 {
			x, y := math.Abs(after.open-before.close), math.Abs(before.open-after.close)
			asOpen, asClose = asOpen+x, asClose+y
		}
		before = after
	}
	if len(rows) > 1 {
		a, _ := l.stampOf(rows[0])
		b, _ := l.stampOf(rows[len(rows)-1])
		newest = a.ms > b.ms
	}
	return newest != (asClose < asOpen)
}
