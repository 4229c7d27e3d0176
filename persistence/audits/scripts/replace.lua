-- Replaces the results of a partition.
-- KEYS[1] results   ARGV FIELD VALUE of each
redis.call('DEL', KEYS[1])
for a = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[a], ARGV[a + 1])
end
return 1
