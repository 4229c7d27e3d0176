-- Writes ticks of the feeder's sources.
-- KEYS[1] epoch   ARGV[1] the feeder's epoch
-- KEYS[2] ticks   ARGV[2...] of each tick: asset, source, price, volume, time, and since
--                            when ticks before it are missing, or empty
-- Returns 1, or 0, with nothing stored, if another feeder took over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
for i = 2, #ARGV, 6 do
  local tick = {'asset', ARGV[i], 'source', ARGV[i + 1], 'price', ARGV[i + 2], 'volume', ARGV[i + 3], 'time', ARGV[i + 4]}
  if ARGV[i + 5] ~= '' then
    tick[11], tick[12] = 'missed', ARGV[i + 5]
  end
  redis.call('XADD', KEYS[2], '*', unpack(tick))
end
return 1
