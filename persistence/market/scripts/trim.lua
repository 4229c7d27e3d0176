-- Trims a stream that others write up to what was read, unless it begins again, which is when all of its ids are smaller
-- than that of the last entry read. If that entry was dropped and none has followed, nothing is left to trim.
-- KEYS[1] stream   ARGV[1] id of the last entry read   ARGV[2] = or ~   ARGV[3] the smallest id that is kept
-- Returns how many entries are dropped.
if #redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', 1) == 0 then
  return 0
end
return redis.call('XTRIM', KEYS[1], 'MINID', ARGV[2], ARGV[3])
