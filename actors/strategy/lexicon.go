package strategy

// The overlay over the analyser's lexicon. Weights are on its scale, -4 to 4. Every
// headline of testdata/headlines.txt must be scored as labelled. testdata/unseen.txt must
// not be tuned to: of its 40 headlines 27 are scored right, 3 wrong and the rest as
// neutral.

// neutralWords are removed from the lexicon: they have another meaning in finance.
var neutralWords = []string{
	"crude", "vice", "liability", "liabilities", "tax", "taxes", "cost", "costs", "gross", "share", "shares",
	"short", "shorts", "bear", "bears", "bull", "bulls",
	"demand", "energy", "fine", "interest", "like", "natural", "security", "securities", "trust", "top",
	"ease", "eases", "eased", "easing",
}

// financeWords are single words with their weight.
var financeWords = weighted{
	1.8:  {"upgrade", "upgrades", "upgraded", "surge", "surges", "surged", "surging", "bullish"},
	-1.9: {"downgrade", "downgrades", "downgraded"},
	1.5:  {"beat", "beats", "rally", "rallies", "rallied", "rebound", "rebounds", "rebounded"},
	-1.7: {"miss", "misses", "missed", "tumble", "tumbles", "tumbled", "slump", "slumps", "slumped"},
	-2.2: {"plunge", "plunges", "plunged", "plunging", "default", "defaults", "defaulted", "crashes", "crashed"},
	-1.3: {"recall", "recalls", "recalled", "layoff", "layoffs", "outage", "outages"},
	-1.5: {"lawsuit", "lawsuits", "sue", "sues", "sued", "probe", "probes", "probed", "selloff", "sell-off", "sink",
		"sinks", "slide", "slides", "breach", "glut", "skid", "skids", "fines", "fined", "warn", "warns", "warned",
		"warning"},
	-2.5: {"hack", "hacks", "hacked", "bankruptcy", "insolvency", "insolvent", "delisted", "delisting"},
	1.3:  {"buyback", "buybacks"},
	1.6:  {"outperform", "outperforms", "outperformed", "soar", "soars", "soared"},
	-1.8: {"bearish"},
	-1.6: {"underperform", "underperforms", "underperformed"},
	1.1: {"rise", "rises", "rising", "rose", "climb", "climbs", "climbed", "jump", "jumps", "jumped", "advance",
		"advances", "advanced", "recover", "recovers", "recovered", "expands", "expanded", "outstrips", "inflows"},
	-1.1: {"fall", "falls", "falling", "fell", "decline", "declines", "declined", "drops", "dropped", "halts",
		"halted", "slip", "slips", "slipped", "retreat", "retreats", "retreated", "dip", "dips", "dipped", "shrinks",
		"slower", "slows", "slowed", "slowdown", "freezes", "froze", "trims", "trimmed", "outflows", "resigns",
		"disappoint", "disappoints", "closures"},
	1.2: {"tops", "approve", "approved"},
}

// financePhrases are entries of several words, which the analyser's lexicon
// cannot hold.
var financePhrases = weighted{
	-1.8: {"guidance cut", "guidance cuts", "cut guidance", "cuts guidance", "cuts its guidance", "cuts forecast",
		"hits record low", "hit record low", "cuts outlook", "lowers guidance", "lowers forecast", "lowers outlook",
		"guidance lowered", "record low", "record lows"},
	1.8: {"record high", "record highs", "hits record high", "hit record high", "all-time high", "all time high",
		"all-time highs", "raises guidance", "raised guidance", "raises forecast", "raises outlook",
		"guidance raised", "lifts guidance", "lifts forecast"},
	-1.9: {"profit warning", "breaks below support", "breaks support", "short of estimates", "bear market"},
	-1.5: {"breaks below", "broke below", "falls short", "fell short", "fails to meet", "junk status", "to junk",
		"trims forecast", "trims outlook", "inflation rises", "inflation accelerates", "hotter than",
		"unemployment rises", "unemployment climbs", "jobless claims rise", "below support", "misses estimates",
		"below estimates", "below expectations", "worse than expected", "weaker than expected", "short seller",
		"short sellers", "bears in control", "price target cut", "cuts price target"},
	1.5: {"breaks above", "broke above", "above resistance", "tops estimates", "above estimates",
		"above expectations", "better than expected", "stronger than expected", "bull market", "bull run",
		"bulls in control", "short squeeze", "price target raised", "raises price target", "investment grade",
		"meets its goal", "met its goal", "hits record", "hit record", "dismisses lawsuit", "lawsuit dismissed",
		"drops lawsuit", "wins lawsuit", "bad loans shrink", "bad loans fall", "inflation cools", "inflation eases",
		"inflation slows", "inflation falls", "jobless claims fall", "unemployment falls", "raises dividend",
		"dividend increase"},
	1.2: {"inventories draw", "inventory draw", "stockpiles fall", "inventories fall", "stocks draw", "supply cut",
		"supply cuts", "output cut", "output cuts", "production cut", "production cuts", "cost cuts", "rate cut",
		"rate cuts", "debt free", "strong demand", "demand rises", "demand surges", "supply fears", "supply worries",
		"drought worries", "drought fears", "frost damages", "damages crop", "crop damage", "cold snap"},
	-1.2: {"inventories build", "inventory build", "stockpiles rise", "inventories rise", "supply glut", "rate hike",
		"rate hikes", "weak demand", "demand falls", "demand slumps", "bumper harvest", "bumper crop",
		"harvest beats", "mild weather", "mild forecasts", "dividend cut", "cuts dividend", "job cuts"},
	-2.5: {"chapter 11", "files for bankruptcy", "accounting fraud"},
	0: {"stock split", "interest rate", "interest rates", "net profit margin", "risk management", "low cost",
		"top line", "stronger dollar", "weaker dollar", "strong dollar", "weak dollar"},
}

// weighted lists words by their weight.
type weighted map[float64][]string
