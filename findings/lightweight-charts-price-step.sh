#!/usr/bin/env bash
# lightweight-charts: the step of a price axis, where a chart formats its prices itself.
#
# Guess: localization.priceFormatter is all that a chart needs to show prices of any size. The axis finds its labels from
# the range of the bars, as it does for times, and asks the formatter for their text: bars between 1.0825 and 1.0841, or between
# 0.0000122 and 0.0000126, get labels.
#
# Seen with 5.2.1: no label at all. The series keeps its default priceFormat, whose minMove of 0.01 is the finest step of
# the axis, whatever the formatter can write. With priceFormat {type: "custom", formatter, minMove} the same bars have an
# axis, and localization.priceFormatter is not needed.
#
# Needs npm, node and chromium. Exits with 1 if the behaviour is another one.
set -euo pipefail
version=5.2.1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir" "lightweight-charts@$version" >/dev/null
cp node_modules/lightweight-charts/dist/lightweight-charts.standalone.production.js chart.js

cat > page.html <<'HTML'
<!doctype html><meta charset="utf-8"><body><script src="chart.js"></script><script>
// What is written on the canvases, by the chart to which they belong.
const written = new Map();
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  const box = this.canvas.closest("div[id]");
  if (box && this.canvas.closest("td") === this.canvas.closest("tr").lastElementChild) written.set(box.id, (written.get(box.id) ?? new Set()).add(text));
  return fillText.call(this, text, ...rest);
};
const cases = [
  ["1.0833", 0.0007, 5], ["0.0000124", 0.02, 7], ["64250", 0.02, 2], // an hour of a currency, a coin of little worth, and of much
].flatMap(([price, swing, digits]) => [["formatter only", false], ["with minMove", true]].map(([how, step]) => ({ id: `${price}, ${how}`, price: Number(price), swing, digits, step })));
for (const { id, price, swing, digits, step } of cases) {
  const box = document.body.appendChild(document.createElement("div"));
  box.id = id;
  const formatter = (p) => p.toFixed(digits);
  const chart = LightweightCharts.createChart(box, { width: 600, height: 300, ...(step ? {} : { localization: { priceFormatter: formatter } }) });
  const series = chart.addSeries(LightweightCharts.CandlestickSeries, {
    lastValueVisible: false,
    ...(step && { priceFormat: { type: "custom", formatter, minMove: 10 ** -digits } }),
  });
  series.setData(Array.from({ length: 60 }, (_, i) => {
    const at = (n) => price * (1 + swing * Math.sin(n / 7));
    return { time: 1795253400 + i * 60, open: at(i), close: at(i + 1), high: Math.max(at(i), at(i + 1)), low: Math.min(at(i), at(i + 1)) };
  }));
}
setTimeout(() => {
  document.body.innerText = cases.map(({ id }) => `${id}: ${[...(written.get(id) ?? [])].sort().join(" ") || "no label"}`).join("\n");
}, 1000);
</script>
HTML

chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --virtual-time-budget=5000 --dump-dom "file://$dir/page.html" 2>/dev/null |
  sed 's/<br>/\n/g; s/.*<body>//; s/<\/body>.*//' | grep ': ' | tee seen.txt

echo "lightweight-charts $(node -p "require('$dir/node_modules/lightweight-charts/package.json').version")"
labels() { grep -F "$1: " seen.txt | sed 's/.*: //; s/no label//' | wc -w; }
fail() { echo "the behaviour is another one: $1"; exit 1; }
for price in 1.0833 0.0000124; do
  [ "$(labels "$price, formatter only")" -eq 0 ] || fail "labels at $price without a minMove"
  [ "$(labels "$price, with minMove")" -ge 3 ] || fail "fewer than three labels at $price with a minMove"
done
[ "$(labels "64250, formatter only")" -ge 3 ] || fail "fewer than three labels at 64250"
