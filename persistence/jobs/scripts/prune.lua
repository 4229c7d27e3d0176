-- Removes ended jobs that are forgotten from an account's indexes.
--
-- KEYS[1] the account's ended jobs   KEYS[2..] its other indexes of ended jobs
-- ARGV[1] now, in ms   ARGV[2] limit
--
-- Returns the number of removed jobs.
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #old > 0 then
  for _, key in ipairs(KEYS) do
    redis.call('ZREM', key, unpack(old))
  end
end
return #old
