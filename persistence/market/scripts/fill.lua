-- Writes many bars of one series, and notifies readers to read it again.
-- KEYS[1] epoch    ARGV[1] the feeder's epoch
-- KEYS[2] state    ARGV[2] maximal number of bars of a series
-- KEYS[3] closed   ARGV[3] asset
-- KEYS[4] series   ARGV[4] timeframe
--                  ARGV[5] 1 drops the earlier bars of the series
--                  ARGV[6...] open time, packed bar
-- Returns 1, or 0, with nothing stored, if another feeder took over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[5] == '1' then
  redis.call('DEL', KEYS[4])
else
  for i = 6, #ARGV, 2 do
    redis.call('ZREMRANGEBYSCORE', KEYS[4], ARGV[i], ARGV[i])
  end
end
for i = 6, #ARGV, 1000 do
  redis.call('ZADD', KEYS[4], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
redis.call('ZREMRANGEBYRANK', KEYS[4], 0, -tonumber(ARGV[2]) - 1)
local count = redis.call('HINCRBY', KEYS[2], 'count', 1)
redis.call('XADD', KEYS[3], '*', 'n', count, 'a', ARGV[3], 't', ARGV[4])
return 1
