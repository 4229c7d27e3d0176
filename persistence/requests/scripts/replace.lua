-- Replaces the lock of a request, or keeps it for longer by replacing it with itself.
-- KEYS[1] reply key   ARGV[1] the lock's value   ARGV[2] its new value
--                     ARGV[3] for how long, ms
-- Returns 1, or 0 if the value was another one.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
