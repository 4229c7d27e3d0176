-- Frees a key of a request, unless it is no longer locked for it.
-- KEYS[1] reply key   ARGV[1] what the lock holds
-- Returns 1 if it was freed.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
