-- Gives a lease back.
-- KEYS[1] owner   ARGV[1] "NODE EPOCH"
-- Returns 1, or 0 if it was not held any more.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
