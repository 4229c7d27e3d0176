-- Stores a checkpoint, for the node that may sign: the owner of the partition whose epoch it is.
-- KEYS[1] epoch        ARGV[1] epoch of the owner
-- KEYS[2] checkpoint   ARGV[2] checkpoint
-- Returns 1, or 0 if another epoch holds the partition.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
