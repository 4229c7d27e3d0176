-- Frees the key of a request if it is still locked for that request.
-- KEYS[1] reply key   ARGV[1] value of the lock
-- Returns 1 if it was freed.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
