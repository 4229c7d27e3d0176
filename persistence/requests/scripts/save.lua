-- Stores a reply unless another request has taken the key.
-- KEYS[1] reply key   ARGV[1] value of the lock   ARGV[2] reply
--                     ARGV[3] for how long, ms
-- Returns 1, or 0 if it was not stored.
local value = redis.call('GET', KEYS[1])
if value and value ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
