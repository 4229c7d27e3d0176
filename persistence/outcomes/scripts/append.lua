-- Appends outcomes of a timeframe, in order. One whose bar is not newer than the newest of its
-- asset is skipped, so that a batch may be repeated, also by another node.
-- KEYS[1] stream        ARGV[1] number of entries that the stream keeps, approximately
-- KEYS[2] newest bars   ARGV[2] maximal number of assets
--                       ARGV[3...] asset, open time of the bar, packed outcome
-- Returns how many were appended.
local appended = 0
for i = 3, #ARGV, 3 do
  local asset, bar = ARGV[i], tonumber(ARGV[i + 1])
  local newest = redis.call('HGET', KEYS[2], asset)
  if not newest and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[2]) then
    -- The asset without outcomes for the longest time makes room.
    local all, oldest = redis.call('HGETALL', KEYS[2]), 1
    for j = 3, #all, 2 do
      if tonumber(all[j + 1]) < tonumber(all[oldest + 1]) then
        oldest = j
      end
    end
    redis.call('HDEL', KEYS[2], all[oldest])
  end
  if not newest or bar > tonumber(newest) then
    redis.call('HSET', KEYS[2], asset, ARGV[i + 1])
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'a', asset, 'o', ARGV[i + 2])
    appended = appended + 1
  end
end
return appended
