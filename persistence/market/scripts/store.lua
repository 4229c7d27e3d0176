-- Stores a step of the market's feeder. Publishes the closed bars, and, without a
-- timeframe, the assets whose record has changed.
-- KEYS[1] epoch     ARGV[1] the feeder's epoch
-- KEYS[2] state     ARGV[2] maximal number of bars of a series
-- KEYS[3] closed    ARGV[3] position in the ticks
-- KEYS[4] assets    ARGV[4] position in the bars
-- KEYS[5] live      ARGV[5] checkpoint; empty leaves it as it is
-- KEYS[6] news      ARGV[6..10] how many assets, live records, news, bars and
-- KEYS[7...]                    assets to remove follow
--   the series      ARGV[11...] assets: key, record; live: symbol, record;
--   of each bar                 news: record; bars: asset, timeframe, open time,
--                               packed bar; assets to remove: key, symbol
-- Returns 1, or 0, with nothing stored, if another feeder took over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local count = tonumber(redis.call('HGET', KEYS[2], 'count') or '0')
local function publish(...)
  count = count + 1
  redis.call('XADD', KEYS[3], '*', 'n', string.format('%.0f', count), ...)
end
local at = 11
for _ = 1, tonumber(ARGV[6]) do
  local before = redis.call('HGET', KEYS[4], ARGV[at])
  redis.call('HSET', KEYS[4], ARGV[at], ARGV[at + 1])
  if before and before ~= ARGV[at + 1] then
    publish('a', ARGV[at], 't', '')
  end
  at = at + 2
end
local live = at + 2 * tonumber(ARGV[7])
for i = at, live - 1, 1000 do
  redis.call('HSET', KEYS[5], unpack(ARGV, i, math.min(i + 999, live - 1)))
end
at = live
for _ = 1, tonumber(ARGV[8]) do
  redis.call('XADD', KEYS[6], '*', 'd', ARGV[at])
  at = at + 1
end
local beyond = -tonumber(ARGV[2]) - 1
for i = 1, tonumber(ARGV[9]) do
  local series, open = KEYS[6 + i], ARGV[at + 2]
  redis.call('ZREMRANGEBYSCORE', series, open, open)
  redis.call('ZADD', series, open, ARGV[at + 3])
  redis.call('ZREMRANGEBYRANK', series, 0, beyond)
  publish('a', ARGV[at], 't', ARGV[at + 1], 'b', ARGV[at + 3])
  at = at + 4
end
for _ = 1, tonumber(ARGV[10]) do
  redis.call('HDEL', KEYS[4], ARGV[at])
  redis.call('HDEL', KEYS[5], ARGV[at + 1])
  publish('a', ARGV[at], 't', '')
  at = at + 2
end
local state = {'ticks', ARGV[3], 'bars', ARGV[4], 'count', string.format('%.0f', count)}
if ARGV[5] ~= '' then
  state[7], state[8] = 'checkpoint', ARGV[5]
end
redis.call('HSET', KEYS[2], unpack(state))
return 1
