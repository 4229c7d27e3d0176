-- Stores the engine's position in an event log, for its partition's owner.
-- KEYS[1] epoch      ARGV[1] epoch of the owner
-- KEYS[2] position   ARGV[2] position
-- Returns 1, or 0 if another epoch holds the partition.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
