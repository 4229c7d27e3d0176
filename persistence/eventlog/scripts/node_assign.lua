-- Replaces the assignment of partitions, unless another node has.
-- KEYS[1] assignment of partitions: a hash
-- ARGV[1] version, one more than that which it replaces
-- ARGV[2] nodes   ARGV[3] owners
-- Returns 1, or 0 if another version is stored.
if tonumber(redis.call('HGET', KEYS[1], 'version') or 0) + 1 ~= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'nodes', ARGV[2], 'owners', ARGV[3])
return 1
