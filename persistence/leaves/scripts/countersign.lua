-- Stores a checkpoint that a witness has signed, unless a newer one of it is stored.
-- KEYS[1] countersigned   ARGV[1] witness
--                         ARGV[2] time of the checkpoint, as in its text: earlier is less
--                         ARGV[3] checkpoint
-- Returns 1, or 0 if a newer one is stored.
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and string.match(stored, '\ntime (%S+)\n') > ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
